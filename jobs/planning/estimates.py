"""Estimates of a job's simulator time before it runs, from past jobs.

Work is counted in runs of the simulator, one per stage, and in fights: those of each actor and of each profileset.
The seconds per run and per fight are fitted to the past jobs. Each of the most similar past jobs then scales the
fitted time by its own deviation: the estimate is the median of the results.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from django.db import connection

from billing import prices
from billing.models import Account
from jobs.models import CHARACTER_LENGTH, Build
from jobs.planning.multistage import COARSE_TARGET_ERRORS, StagePlan
from jobs.planning.past_jobs import additional_fights, expected_fights, statistics_of
from simc.profiles.analysis import Analysis
from simc.profiles.numbers import Precision
from simc.reports import fights_of

READ_JOBS = 40
# With fewer jobs of the account, the build's latest jobs are read too.
NEAREST_JOBS = 5
# The latest jobs of the service, of which those on the build count.
LATEST_JOBS = 500
# The distance of a job that differs in one respect. Jobs whose usual times differ e-fold have the same distance.
DIFFERENCE = 1.0
# How much the shares of starts and fights must differ between jobs, from 0 to 1.
LEAST_DIFFERENCE = 0.05
# Stages that cull run each profileset twice.
CULLING_RUNS = 2

_COLUMNS = """
    SELECT account_id = %(account_id)s, build_id = %(build_id)s, character, other_characters, sim_duration_ms,
        coalesce(nullif(summary -> 'mainActor', 'null'), summary #> '{actors,results,0}') - 'profilesets',
        summary #> '{mainActor,profilesets,results,0}', summary #> '{mainActor,profilesets,count}',
        summary #> '{multiStage,stages}', summary -> 'additional_fights'
"""
# The index `job_by_status` reads the account's jobs, and the primary key the latest of all accounts.
OWN_JOBS = f"""
    {_COLUMNS} FROM jobs_job
    WHERE account_id = %(account_id)s AND status = 'completed' ORDER BY id DESC LIMIT %(limit)s
"""
JOBS_ON_BUILD = f"""
    {_COLUMNS} FROM (SELECT * FROM jobs_job ORDER BY id DESC LIMIT %(latest)s) AS latest
    WHERE account_id <> %(account_id)s AND build_id = %(build_id)s AND status = 'completed'
    ORDER BY id DESC LIMIT %(limit)s
"""  # noqa: S608 - constants


@dataclass(frozen=True, kw_only=True)
class Range:
    """A figure with the lowest and the highest value that is likely."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True, kw_only=True)
class CreditsRange:
    """A price with the lowest and the highest one that is likely."""

    low: int
    expected: int
    high: int


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The simulator seconds that a job is expected to take, from `jobs` past ones.

    `is_own` is false if some of them belong to other accounts, `on_build` if some ran on other builds.
    """

    seconds: Range
    jobs: int
    is_own: bool
    on_build: bool

    def credits(self, *, credits_per_second: int, ceiling: int) -> CreditsRange:
        """Return what runs of these lengths are billed, at most the job's ceiling, without a priority fee."""
        low, expected, high = (
            min(prices.of_time(round(each * 1000), credits_per_second=credits_per_second), ceiling)
            for each in (self.seconds.low, self.seconds.expected, self.seconds.high)
        )
        return CreditsRange(low=low, expected=expected, high=high)


@dataclass(frozen=True, kw_only=True)
class PastJob:
    """A completed job: its simulator seconds, its fights, and their standard deviation in percent of the mean.

    `character` is empty for a job of another account: an estimate must not depend on the names in it.
    """

    seconds: float
    fights: float
    spread: float
    character: str
    is_own: bool
    on_build: bool
    stages: Sequence[dict[str, Any]]

    @property
    def runs(self) -> int:
        """The number of runs of the simulator."""
        return max(1, len(self.stages))


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The seconds that the simulator needs to start, and for one fight."""

    start: float
    fight: float

    def seconds(self, *, runs: int, fights: float) -> float:
        """Return the expected seconds of some runs with some fights in all."""
        return self.start * runs + self.fight * fights


def estimate(account: Account, build: Build, analysis: Analysis, stages: StagePlan) -> Estimate | None:
    """Return the expected time of a profile on a build, or None without past jobs. At most two queries."""
    past = past_jobs(account, build)
    return from_past_jobs(past, analysis, stages) if past else None


def from_past_jobs(past: Sequence[PastJob], analysis: Analysis, stages: StagePlan) -> Estimate:
    """Return the expected time of a profile from at least one past job.

    Medians are used, so one unusual job does not change the result. The fewer jobs there are, the wider is the
    range: from half to double of a single one.
    """
    character = (analysis.main_actor or "")[:CHARACTER_LENGTH]
    alike = [job for job in past if job.character and job.character == character] or past
    fights = _fights_of_profile(analysis, stages, spread=median(job.spread for job in alike), past=past)

    runs = len(stages.stages) if stages.enabled else 1
    costs = costs_of(past)
    seconds = costs.seconds(runs=runs, fights=fights)

    def usual(job: PastJob) -> float:
        return costs.seconds(runs=job.runs, fights=job.fights)

    def distance(job: PastJob) -> float:
        differences = (
            job.character != character,
            not job.on_build,
            bool(job.stages) != stages.enabled,
            not job.is_own,
        )
        return abs(math.log(usual(job) / seconds)) + DIFFERENCE * sum(differences)

    nearest = sorted(past, key=distance)[:NEAREST_JOBS]
    likely = sorted(job.seconds / usual(job) * seconds for job in nearest)
    margin = 1 + 1 / len(nearest)
    return Estimate(
        seconds=Range(low=likely[0] / margin, expected=median(likely), high=likely[-1] * margin),
        jobs=len(nearest),
        is_own=all(job.is_own for job in nearest),
        on_build=all(job.on_build for job in nearest),
    )


def costs_of(past: Sequence[PastJob]) -> Costs:
    """Return the costs that minimize the sum of the squared relative errors of at least one past job.

    Relative errors count a short job as much as a long one. The start is free unless the jobs differ enough to tell
    its cost from that of the fights.
    """
    shares = [(job.runs / job.seconds, job.fights / job.seconds) for job in past]
    of_runs, of_fights = (sum(each[index] for each in shares) for index in (0, 1))
    runs_squared, fights_squared = (sum(each[index] ** 2 for each in shares) for index in (0, 1))
    mixed = sum(runs * fights for runs, fights in shares)
    determinant = runs_squared * fights_squared - mixed**2
    start = fight = 0.0
    if determinant > LEAST_DIFFERENCE * runs_squared * fights_squared:
        start = (of_runs * fights_squared - of_fights * mixed) / determinant
        fight = (of_fights * runs_squared - of_runs * mixed) / determinant
    if start <= 0 or fight <= 0:
        return Costs(start=0.0, fight=of_fights / fights_squared)
    return Costs(start=start, fight=fight)


def _fights_of_profile(analysis: Analysis, stages: StagePlan, *, spread: float, past: Iterable[PastJob]) -> float:
    """Return the expected number of fights of a profile."""
    actors = max(1, analysis.actors + analysis.included_actors) + analysis.copies
    candidates = len(analysis.profilesets)
    if not stages.enabled:
        numbers = analysis.effective_numbers()
        additional = additional_fights(analysis, numbers, spread=spread)
        return actors * additional + (actors + candidates) * expected_fights(numbers, spread=spread)
    count = len(stages.stages)
    known = statistics_of([(list(job.stages), [], []) for job in past if len(job.stages) == count])
    total, remaining = 0.0, float(candidates)
    for stage in stages.stages:
        numbers = Precision(iterations=stage.iterations, target_error=stage.target_error or 0.0)
        sets = remaining * (CULLING_RUNS if stage.number < count else 1)
        total += (actors + sets) * expected_fights(numbers, spread=spread)
        remaining *= known.share(stage.number)
    return total + actors * additional_fights(analysis, numbers, spread=spread)


def past_jobs(account: Account, build: Build) -> list[PastJob]:
    """Return the account's latest completed jobs, and others on the build if they are few. At most two queries."""
    values = {"account_id": account.pk, "build_id": build.pk, "limit": READ_JOBS, "latest": LATEST_JOBS}
    own = _read(OWN_JOBS, values)
    return own if len(own) >= NEAREST_JOBS else own + _read(JOBS_ON_BUILD, values)


class _Row(NamedTuple):
    """A row of the queries: a job, the figures of its first actor and best profileset, and its stages."""

    is_own: bool
    on_build: bool | None
    character: str
    other_characters: int
    milliseconds: int | None
    actor: dict[str, Any] | None
    best: dict[str, Any] | None
    profilesets: int | None
    stages: list[dict[str, Any]] | None
    additional: float | None


def _read(query: str, values: dict[str, Any]) -> list[PastJob]:
    """Return the jobs of a query whose work is known."""
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        rows = [_Row(*row[:5], *(json.loads(each or "null") for each in row[5:])) for row in cursor.fetchall()]
    return [job for job in map(_past_job, rows) if job is not None]


def _past_job(row: _Row) -> PastJob | None:
    """Return a past job, or None if its time or its fights are unknown."""
    if not row.milliseconds or not row.actor or row.actor["mean"] <= 0:
        return None
    # In stages, the best profileset has the figures of the last stage.
    last = row.best if row.best and row.best["mean"] > 0 else row.actor
    spread = 100 * last["stddev"] / last["mean"]
    of_actor = fights_of(row.actor["stddev"], row.actor["mean_stddev"]) + (row.additional or 0)
    of_actors = (1 + row.other_characters) * of_actor
    of_one_set = fights_of(last["stddev"], last["mean_stddev"])
    of_sets = _staged_fights(row.stages, of_one_set, spread) if row.stages else (row.profilesets or 0) * of_one_set
    if of_actors + of_sets <= 0:
        return None
    return PastJob(
        seconds=row.milliseconds / 1000,
        fights=of_actors + of_sets,
        spread=spread,
        character=row.character if row.is_own else "",
        is_own=row.is_own,
        on_build=bool(row.on_build),
        stages=row.stages or [],
    )


def _staged_fights(stages: Sequence[dict[str, Any]], last_fights: float, spread: float) -> float:
    """Return the fights of the profilesets in all stages; each of those in the last stage had `last_fights`."""
    limit = math.ceil(last_fights)
    coarse = [
        CULLING_RUNS * expected_fights(Precision(iterations=limit, target_error=error), spread=spread)
        for error in COARSE_TARGET_ERRORS[: len(stages) - 1]
    ]
    return sum(
        float(stage["profilesets"]) * each for stage, each in zip(stages, [*coarse, last_fights], strict=False)
    )
