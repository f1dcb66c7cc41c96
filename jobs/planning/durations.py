"""The expected simulator time of a profileset, from past jobs of the account or an earlier stage of the job."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.db import connection

from jobs.models import Build, Job
from simc.profiles.numbers import Numbers
from simc.reports import Report, fights_of

READ_JOBS = 40
# The simulator checks the error each time it has run this many fights.
FIGHTS_BETWEEN_CHECKS = 100
# Half the width of a 95 % confidence interval, in standard errors.
ESTIMATOR = 1.96

# The account's last completed jobs, read by the index `job_by_status`. Only the runs of the last stage are counted,
# because only its results are complete. Its number is 1 in a single pass.
PAST_JOBS = """
    SELECT build_id = %s, summary -> 'mainActor', summary #> '{multiStage,stages,-1}',
        (SELECT sum(wall_ms)::bigint FROM jobs_run
            WHERE job_id = past.id AND attempt = past.attempt
            AND stage = coalesce((summary #>> '{multiStage,stages,-1,stage}')::int, 1))
    FROM (
        SELECT id, attempt, build_id, summary FROM jobs_job
        WHERE account_id = %s AND status = 'completed' ORDER BY id DESC LIMIT %s
    ) AS past
"""


@dataclass(frozen=True, kw_only=True)
class PastJob:
    """Seconds that a past job, or a stage, took for one fight, and the standard deviation of fights in percent."""

    pace: float
    spread: float


def expected_set_seconds(job: Job, build: Build, *, numbers: Numbers) -> float | None:
    """Return the expected simulator seconds of one profileset with these numbers, or None without past jobs.

    Past jobs on the build count, or those on other builds if there are none. One query.
    """
    with connection.cursor() as cursor:
        cursor.execute(PAST_JOBS, [build.pk, job.account_id, READ_JOBS])
        rows = [
            (on_build, past_job(json.loads(actor or "null"), json.loads(stage or "null"), wall_ms))
            for on_build, actor, stage, wall_ms in cursor
        ]
    known = [(on_build, past) for on_build, past in rows if past is not None]
    chosen = [past for on_build, past in known if on_build] or [past for _, past in known]
    return expected_seconds(chosen, numbers=numbers) if chosen else None


def expected_seconds(jobs: Iterable[PastJob], *, numbers: Numbers) -> float:
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


def expected_fights(numbers: Numbers, *, spread: float) -> float:
    """Return how many fights a simulation needs if their standard deviation is `spread` percent of the mean."""
    if numbers.target_error <= 0:
        return numbers.iterations
    # Limited before it is squared, because the square can overflow.
    root = min(ESTIMATOR * spread / numbers.target_error, math.sqrt(numbers.iterations))
    checks = max(1, math.ceil(root**2 / FIGHTS_BETWEEN_CHECKS))
    return min(checks * FIGHTS_BETWEEN_CHECKS, numbers.iterations)


def past_job(actor: dict[str, Any] | None, stage: dict[str, Any] | None, wall_ms: int | None) -> PastJob | None:
    """Return the figures of a past job, or None if its profilesets or its time are unknown.

    `actor` is the main actor of its summary, `stage` the last of several stages, and `wall_ms` the time of that
    stage's runs.
    """
    if not actor or not wall_ms or "profilesets" not in actor:
        return None
    number, count = (stage["stage"], stage["profilesets"]) if stage else (1, actor["profilesets"]["count"])
    results = [row for row in actor["profilesets"]["results"] if row["stage"] == number]
    fights = [fights_of(row["stddev"], row["mean_stddev"]) for row in results]
    spreads = [100 * row["stddev"] / row["mean"] for row in results if row["mean"] > 0]
    if not spreads or not all(fights):
        return None
    total = fights_of(actor["stddev"], actor["mean_stddev"]) + count * median(fights)
    return PastJob(pace=wall_ms / 1000 / total, spread=median(spreads))
