"""Progress and finished runs of shards in Redis."""

from collections import deque

import pytest

from jobs.execution import progress
from jobs.models import ShardedStage
from simc.progress import FinishedRun
from simservice.redis.client import redis
from tests.jobs.shards.sharded_jobs import make_stage

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stage() -> ShardedStage:
    return make_stage()


def runs(*numbers: int) -> deque[FinishedRun]:
    return deque(FinishedRun(f"set {number}", 1000.0 + number, 0.5, 100) for number in numbers)


def test_each_run_is_taken_once(stage: ShardedStage) -> None:
    pending = runs(1, 2)
    progress.publish_shard(stage, number=1, percent=40, runs=pending)
    progress.publish_shard(stage, number=2, percent=50, runs=runs(3))
    assert not pending
    assert progress.take_shards(stage) == ({1: 40, 2: 50}, [*runs(1, 2, 3)])
    assert progress.take_shards(stage) == ({1: 40, 2: 50}, [])


def test_runs_wait_while_redis_fails(stage: ShardedStage, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = runs(1)
    with monkeypatch.context() as patch:
        patch.setattr(progress, "best_effort", lambda command, default: default)  # noqa: ARG005
        progress.publish_shard(stage, number=1, percent=40, runs=pending)
        assert progress.take_shards(stage) == ({}, [])
    progress.publish_shard(stage, number=1, percent=40, runs=pending)
    assert progress.take_shards(stage)[1] == [*runs(1)]


def test_waiting_runs_are_bounded_and_expire(stage: ShardedStage) -> None:
    for _ in range(3):
        progress.publish_shard(stage, number=1, percent=40, runs=runs(*range(900)))
    (key,) = redis().keys("shard-runs:*")
    assert redis().llen(key) == progress.MAX_RUNS == 2000
    assert 0 < int(str(redis().ttl(key))) <= progress.KEPT_SECONDS


def test_attempts_and_stages_are_separate(stage: ShardedStage) -> None:
    progress.publish_shard(stage, number=1, percent=40, runs=runs(1))
    stage.stage = 2
    assert progress.take_shards(stage) == ({}, [])
