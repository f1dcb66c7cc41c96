"""Progress of running shards in Redis, from which the conductor calculates the progress of the job.

It may be lost, and is then 0 until a shard publishes it again.
"""

from collections.abc import Mapping
from typing import cast

from jobs.models import ShardedStage
from simservice.redis.client import best_effort, redis

KEPT_SECONDS = 600


def publish(stage: ShardedStage, *, number: int, percent: float) -> None:
    """Store the progress of a running shard."""

    def store() -> None:
        with redis().pipeline() as pipeline:
            pipeline.hset(_key_of(stage), str(number), percent)
            pipeline.expire(_key_of(stage), KEPT_SECONDS)
            pipeline.execute()

    best_effort(store, default=None)


def percents(stage: ShardedStage) -> dict[int, float]:
    """Return the published progress of shards, by their numbers; those that have ended may be among them."""
    nothing: Mapping[str, str] = {}
    stored = best_effort(lambda: cast(Mapping[str, str], redis().hgetall(_key_of(stage))), default=nothing)
    return {int(number): float(percent) for number, percent in stored.items()}


def _key_of(stage: ShardedStage) -> str:
    return f"shards:{stage.job_id}:{stage.attempt}:{stage.stage}"
