"""Statistics of past jobs in stages: the share of profilesets that each stage keeps, and the cost of its runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from django.db import connection

from simc.reports import fights_of

READ_JOBS = 40
# With this many jobs of the account itself, those of other accounts are not used.
ENOUGH_JOBS = 3
DEFAULT_SHARE = 0.15

# The last completed jobs in stages, with the simulator time of each stage: the sum over its shards of the last try,
# the one that is billed. The index `job_staged` keeps the query from reading other rows.
RECENT = """
    SELECT account_id, summary -> 'multiStage' -> 'stages', summary -> 'mainActor' -> 'profilesets' -> 'results',
        ARRAY(SELECT sum(wall_ms)::bigint FROM (
            SELECT DISTINCT ON (stage, shard) stage, coalesce(wall_ms, 0) AS wall_ms FROM jobs_run
            WHERE job_id = jobs_job.id AND attempt = jobs_job.attempt ORDER BY stage, shard, try_number DESC
        ) AS counted GROUP BY stage ORDER BY stage)
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
            (account, json.loads(stages_json or "[]"), json.loads(sets or "[]"), walls)
            for account, stages_json, sets, walls in cursor
        ]
    comparable = [row for row in rows if len(row[1]) == len(row[3]) == stages]
    own = [row for row in comparable if row[0] == account_id]
    return statistics_of([row[1:] for row in (own if len(own) >= ENOUGH_JOBS else comparable)])


def statistics_of(jobs: Sequence[tuple[list[Any], list[Any], list[int]]]) -> StageStatistics:
    """Return the statistics of jobs, given the stages, results and milliseconds of each.

    They are medians, so one unusual job does not change them.
    """
    kept: dict[int, list[float]] = {}
    for stages, _, _ in jobs:
        for stage in stages:
            if stage["profilesets"]:
                kept.setdefault(stage["stage"], []).append(1 - stage["culled"] / stage["profilesets"])
    pairs = (costs_of(*job) for job in jobs)
    return StageStatistics(
        shares={number: median(shares) for number, shares in kept.items()},
        costs=tuple(pair for pair in pairs if pair is not None),
    )


def costs_of(stages: list[Any], results: list[Any], walls: list[int]) -> tuple[Cost, Cost] | None:
    """Return the cost of a job's first and last stage, or None if the fights of one of them are unknown."""
    last = len(stages)
    fights: dict[int, list[float]] = {number: [] for number in (1, last)}
    for row in results:
        if row["stage"] in fights:
            fights[row["stage"]].append(fights_of(row["stddev"], row["mean_stddev"]))
    if not all(fights.values()) or not stages[-1]["profilesets"]:
        return None
    # Stages that cull run each profileset twice, and its result has the fights of both runs.
    first = Cost(seconds=walls[0] / 1000, runs=1 + 2 * stages[0]["profilesets"], fights=median(fights[1]) / 2)
    final = Cost(seconds=walls[-1] / 1000, runs=1 + stages[-1]["profilesets"], fights=median(fights[last]))
    return (first, final) if final.fights > first.fights else None
