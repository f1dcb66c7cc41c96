"""Progress and finished runs of shards in Redis, from which the conductor calculates those of the job.

They may be lost: the progress is then 0 until a shard publishes it again, and the preview lacks some profilesets.
"""

import json
from collections import deque
from collections.abc import Mapping
from typing import cast

from jobs.models import ShardedStage
from simc.progress import FinishedRun
from simservice.redis.client import best_effort, redis

KEPT_SECONDS = 600
# The conductor takes the runs twice a second, so more are waiting only while it does not run.
MAX_RUNS = 2_000


def publish(stage: ShardedStage, *, number: int, percent: float, runs: deque[FinishedRun]) -> None:
    """Store the progress of a running shard, and move its newly finished `runs` to the conductor."""

    def store() -> None:
        texts = [json.dumps(run) for run in tuple(runs)]
        with redis().pipeline() as pipeline:
            pipeline.hset(_key_of(stage), str(number), percent)
            pipeline.expire(_key_of(stage), KEPT_SECONDS)
            if texts:
                pipeline.rpush(_runs_key_of(stage), *texts)
                pipeline.ltrim(_runs_key_of(stage), -MAX_RUNS, -1)
                pipeline.expire(_runs_key_of(stage), KEPT_SECONDS)
            pipeline.execute()
        for _ in texts:
            runs.popleft()

    best_effort(store, default=None)


def take(stage: ShardedStage) -> tuple[dict[int, float], list[FinishedRun]]:
    """Return the percentages of shards by their numbers, and the runs that finished since the last call.

    Shards that have ended may be among the percentages.
    """

    def read() -> tuple[Mapping[str, str], list[str] | None]:
        with redis().pipeline() as pipeline:
            pipeline.hgetall(_key_of(stage))
            pipeline.lpop(_runs_key_of(stage), MAX_RUNS)
            return cast(tuple[Mapping[str, str], list[str] | None], tuple(pipeline.execute()))

    nothing: tuple[Mapping[str, str], list[str] | None] = ({}, None)
    percents, texts = best_effort(read, default=nothing)
    runs = [FinishedRun(*json.loads(text)) for text in texts or ()]
    return {int(number): float(percent) for number, percent in percents.items()}, runs


def _key_of(stage: ShardedStage) -> str:
    return f"shards:{stage.job_id}:{stage.attempt}:{stage.stage}"


def _runs_key_of(stage: ShardedStage) -> str:
    return f"shard-runs:{stage.job_id}:{stage.attempt}:{stage.stage}"
