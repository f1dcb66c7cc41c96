"""What the recovery run counts, and which figures miss their aims."""

from dataclasses import replace
from typing import Any, cast

import pytest

from bench.lab import number
from bench.recovery import DONE_SHARDS, ENDED_RUNS, LOST_RUNS, REPEATED_SHARDS, Ended, Recovery
from jobs.lifecycle import shard_moves
from tests.jobs.shards.sharded_jobs import end, make_stage, started

GOOD = Ended(
    minutes=10,
    simulator_seconds=2400,
    kills=0,
    lost_runs=0,
    repeated_shards=0,
    attempts=1,
    credits=76_800,
    winner="set0",
)


@pytest.mark.django_db
def test_runs_of_shards_are_counted() -> None:
    stage = make_stage(shards=3)
    job_id = stage.job_id
    stage.job.runs.all().delete()
    assert number(DONE_SHARDS, job_id, job_id) == 0
    end(*started(stage))
    lost, _ = started(stage)
    shard_moves.return_shard(lost, losses=0)
    end(*started(stage))
    counts = [number(query, job_id) for query in (ENDED_RUNS, LOST_RUNS, REPEATED_SHARDS)]
    assert (number(DONE_SHARDS, job_id, job_id), counts) == (0.5, [6000, 1, 0])


@pytest.mark.django_db
def test_a_finished_shard_that_runs_again_is_counted() -> None:
    stage = make_stage(shards=1)
    end(*started(stage))
    assert shard_moves.reject_shard(stage.shards.get(status="done"), attempt=stage.attempt)
    end(*started(stage))
    assert number(REPEATED_SHARDS, stage.job_id) == 1


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"simulator_seconds": 2520}, []),
        ({"simulator_seconds": 2521}, ["simulator time 1.050"]),
        ({"credits": 77_600}, ["bill +1.04%"]),
        ({"credits": 76_000}, ["bill -1.04%"]),
        ({"winner": "set1"}, ["winner set1, not set0"]),
    ],
)
def test_a_run_with_kills_is_compared_with_its_aims(changes: dict[str, Any], missed: list[str]) -> None:
    recovery = Recovery(*cast(Any, (None, None, None)), seed=1)
    recovery.compare(GOOD, replace(GOOD, **changes))
    assert recovery.missed == missed
