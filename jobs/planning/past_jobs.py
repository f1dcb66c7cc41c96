"""Figures of past jobs: for the progress of jobs in stages, and for the sizes of shards."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from django.db import connection

from jobs.models import Build, Job
from simc.profiles.analysis import Analysis
from simc.profiles.numbers import Precision
from simc.reports import Report, fights_of

READ_JOBS = 40
# With this many jobs of the account itself, those of other accounts are not used.
ENOUGH_JOBS = 3
DEFAULT_SHARE = 0.15

# The last completed jobs in stages, with the simulator time of each stage: the sum over its shards of the last try,
# the one that is billed. It can belong to an earlier attempt. The index `job_staged` keeps the query from reading
# other rows.
RECENT = """
    SELECT account_id, summary -> 'multiStage' -> 'stages', summary -> 'mainActor' -> 'profilesets' -> 'results',
        ARRAY(SELECT sum(wall_ms)::bigint FROM (
            SELECT DISTINCT ON (stage, shard) stage, coalesce(wall_ms, 0) AS wall_ms FROM jobs_run
            WHERE job_id = jobs_job.id ORDER BY stage, shard, attempt DESC, try_number DESC
        ) AS counted GROUP BY stage ORDER BY stage), summary -> 'additional_fights'
    FROM jobs_job WHERE multi_stage AND status = 'completed' ORDER BY id DESC LIMIT %s
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one stage of a past job: `runs` of the baseline and the profilesets, with `fights` each."""

    seconds: float
    runs: int
    fights: float


@dataclass(frozen=True, kw_only=True)
class StageStatistics:
    """The median share that each stage keeps, by its number, and the costs of first and last stages."""

    shares: Mapping[int, float] = field(default_factory=dict)
    costs: Sequence[tuple[Cost, Cost]] = ()

    def share(self, stage: int) -> float:
        """Return the share of its profilesets that a stage keeps."""
        return self.shares.get(stage, DEFAULT_SHARE)

    def setup_fights(self, *, startup_seconds: float) -> float:
        """Return how many fights take as long as setting up one run; 0 if unknown."""
        return median(_setup_fights(*pair, startup_seconds) for pair in self.costs) if self.costs else 0.0


def _setup_fights(first: Cost, last: Cost, startup_seconds: float) -> float:
    """Solve seconds = startup + runs * (setup + fights) * pace for the setup, in fights."""
    first_run = max(0.0, first.seconds - startup_seconds) / first.runs
    last_run = max(0.0, last.seconds - startup_seconds) / last.runs
    pace = (last_run - first_run) / (last.fights - first.fights)
    return max(0.0, first_run / pace - first.fights) if pace > 0 else 0.0


def recent(account_id: int, *, stages: int) -> StageStatistics:
    """Return statistics of jobs with this many stages, of the account's own if there are enough. One query."""
    with connection.cursor() as cursor:
        cursor.execute(RECENT, [READ_JOBS])
        rows = [
            (account, json.loads(stages_json or "[]"), json.loads(sets or "[]"), walls, json.loads(more or "0"))
            for account, stages_json, sets, walls, more in cursor
        ]
    comparable = [row for row in rows if len(row[1]) == len(row[3]) == stages]
    own = [row for row in comparable if row[0] == account_id]
    return statistics_of([row[1:] for row in (own if len(own) >= ENOUGH_JOBS else comparable)])


def statistics_of(jobs: Sequence[Sequence[Any]]) -> StageStatistics:
    """Return the statistics of jobs, given what `costs_of` takes of each.

    They are medians, so one unusual job does not change them.
    """
    kept: dict[int, list[float]] = {}
    for stages, *_ in jobs:
        for stage in stages:
            if stage["profilesets"]:
                kept.setdefault(stage["stage"], []).append(1 - stage["culled"] / stage["profilesets"])
    pairs = (costs_of(*job) for job in jobs)
    return StageStatistics(
        shares={number: median(shares) for number, shares in kept.items()},
        costs=tuple(pair for pair in pairs if pair is not None),
    )


def costs_of(
    stages: list[Any], results: list[Any], walls: list[int], additional: float = 0
) -> tuple[Cost, Cost] | None:
    """Return the cost of a job's first and last stage, or None if the fights of one of them are unknown.

    `walls` are the milliseconds of each stage, and `additional` the fights for scale factors and plots.
    """
    last = len(stages)
    fights: dict[int, list[float]] = {number: [] for number in (1, last)}
    for row in results:
        if row["stage"] in fights:
            fights[row["stage"]].append(fights_of(row["stddev"], row["mean_stddev"]))
    if not all(fights.values()) or not stages[-1]["profilesets"]:
        return None
    # Stages that cull run each profileset twice, and its result has the fights of both runs.
    first = Cost(seconds=walls[0] / 1000, runs=1 + 2 * stages[0]["profilesets"], fights=median(fights[1]) / 2)
    each = median(fights[last])
    # Scale factors and plots run in the last stage.
    runs = 1 + stages[-1]["profilesets"] + round(additional / each if each else 0)
    final = Cost(seconds=walls[-1] / 1000, runs=runs, fights=each)
    return (first, final) if final.fights > first.fights else None


# The simulator checks the error each time it has run this many fights.
FIGHTS_BETWEEN_CHECKS = 100
# Half the width of a 95 % confidence interval, in standard errors.
ESTIMATOR = 1.96

# The account's last completed jobs, read by the index `job_by_status`. Only the runs of the last stage are counted,
# because only its results are complete. Its number is 1 in a single pass.
PAST_JOBS = """
    SELECT build_id = %s, summary -> 'mainActor', summary #> '{multiStage,stages,-1}',
        summary -> 'additional_fights',
        (SELECT sum(wall_ms)::bigint FROM (
            SELECT DISTINCT ON (shard) wall_ms FROM jobs_run
            WHERE job_id = past.id AND stage = coalesce((summary #>> '{multiStage,stages,-1,stage}')::int, 1)
            ORDER BY shard, attempt DESC, try_number DESC
        ) AS counted)
    FROM (
        SELECT id, build_id, summary FROM jobs_job
        WHERE account_id = %s AND status = 'completed' ORDER BY id DESC LIMIT %s
    ) AS past
"""


@dataclass(frozen=True, kw_only=True)
class PastJob:
    """Seconds that a past job, or a stage, took for one fight, and the standard deviation of fights in percent."""

    pace: float
    spread: float


def expected_set_seconds(job: Job, build: Build, *, numbers: Precision) -> float | None:
    """Return the expected simulator seconds of one profileset with these numbers, or None without past jobs.

    Past jobs on the build count, or those on other builds if there are none. One query.
    """
    with connection.cursor() as cursor:
        cursor.execute(PAST_JOBS, [build.pk, job.account_id, READ_JOBS])
        rows = [
            (
                on_build,
                past_job(
                    json.loads(actor or "null"),
                    json.loads(stage or "null"),
                    wall_ms,
                    additional=json.loads(more or "0"),
                ),
            )
            for on_build, actor, stage, more, wall_ms in cursor
        ]
    known = [(on_build, past) for on_build, past in rows if past is not None]
    chosen = [past for on_build, past in known if on_build] or [past for _, past in known]
    return expected_seconds(chosen, numbers=numbers) if chosen else None


def expected_seconds(jobs: Iterable[PastJob], *, numbers: Precision) -> float:
    """Return the expected seconds of one profileset from at least one past job.

    Medians are used, so one unusual job does not change the result.
    """
    past = list(jobs)
    fights = expected_fights(numbers, spread=median(job.spread for job in past))
    return fights * median(job.pace for job in past)


def measured(report: Report, *, seconds: float) -> PastJob | None:
    """Return the figures of a stage whose runs took some seconds, or None if its fights are unknown."""
    entries = [report.players[0].dps, *(each.statistics for each in report.profilesets)]
    fights = [fights_of(each.stddev, each.mean_stddev) for each in entries]
    spreads = [100 * each.stddev / each.mean for each in entries[1:] if each.mean > 0]
    return PastJob(pace=seconds / sum(fights), spread=median(spreads)) if spreads and all(fights) else None


def expected_fights(numbers: Precision, *, spread: float) -> float:
    """Return how many fights a simulation needs if their standard deviation is `spread` percent of the mean."""
    if numbers.target_error <= 0:
        return numbers.iterations
    # Limited before it is squared, because the square can overflow.
    root = min(ESTIMATOR * spread / numbers.target_error, math.sqrt(numbers.iterations))
    checks = max(1, math.ceil(root**2 / FIGHTS_BETWEEN_CHECKS))
    return min(checks * FIGHTS_BETWEEN_CHECKS, numbers.iterations)


def additional_fights(analysis: Analysis, numbers: Precision, *, spread: float) -> float:
    """Return how many fights of each actor the scale factors and plots need beside the base, with its numbers."""
    points, of_base = analysis.plot.points, expected_fights(numbers, spread=spread)
    of_point = expected_fights(analysis.plot_numbers, spread=spread) if points else 0.0
    return analysis.weight_runs * of_base + points * of_point


def past_job(
    actor: dict[str, Any] | None, stage: dict[str, Any] | None, wall_ms: int | None, additional: float = 0
) -> PastJob | None:
    """Return the figures of a past job, or None if its profilesets or its time are unknown.

    `actor` is the main actor of its summary, `stage` the last of several stages, and `wall_ms` the time of that
    stage's runs. `additional` are its fights for scale factors and plots.
    """
    if not actor or not wall_ms or "profilesets" not in actor:
        return None
    number, count = (stage["stage"], stage["profilesets"]) if stage else (1, actor["profilesets"]["count"])
    results = [row for row in actor["profilesets"]["results"] if row["stage"] == number]
    fights = [fights_of(row["stddev"], row["mean_stddev"]) for row in results]
    spreads = [100 * row["stddev"] / row["mean"] for row in results if row["mean"] > 0]
    if not spreads or not all(fights):
        return None
    total = fights_of(actor["stddev"], actor["mean_stddev"]) + count * median(fights) + additional
    return PastJob(pace=wall_ms / 1000 / total, spread=median(spreads))
