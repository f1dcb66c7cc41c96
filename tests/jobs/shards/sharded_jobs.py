"""Sharded stages without simulators: their rows, and claims of their shards."""

from typing import Any

from django.db.models.functions import Now

from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import Job, Run, Shard, ShardedStage
from tests.factories import BuildFactory, make_running_job

SLICE_MS = 10_000
RUN = {
    "wall_ms": 3000,
    "cpu_ms": 2000,
    "peak_memory_bytes": 1 << 20,
    "exit_code": "0",
    "stopped_for": "",
    "layers": "[]",
}


def make_stage(job: Job | None = None, *, shards: int = 4, slots: int = 3, **fields: Any) -> ShardedStage:
    """Return the sharded stage of a running job: shard 0 and `shards` others, each with two profilesets."""
    job = job or make_running_job(parallel_slots=slots)
    build = job.build or BuildFactory.create()
    defaults: dict[str, Any] = {
        "attempt": job.attempt,
        "created_by_attempt": job.attempt,
        "stage": 1,
        "build": build,
        "executable_sha256": "0" * 64,
        "priority": job.priority,
        "slots": slots,
        "base_text": 'mage="A"\n',
        "numbers": "iterations=100\ntarget_error=0",
        "funded_ms": 100_000,
        "slice_ms": SLICE_MS,
        "created_at": Now(),
    }
    stage = ShardedStage(job=job, **(defaults | fields))
    rows = [Shard(stage=stage, number=number, text="", profilesets=2) for number in range(shards + 1)]
    assert shard_moves.create_stage(stage, rows, job)
    return ShardedStage.objects.select_related("job", "build").get(pk=stage.pk)


def claim(stage: ShardedStage, *, conducts: bool = False, worker: str = "helper") -> ClaimedShard | None:
    return shard_moves.claim_shard(stage.pk, worker=worker, attempt=stage.attempt if conducts else None)


def claimed(stage: ShardedStage, *, conducts: bool = False, worker: str = "helper") -> ClaimedShard:
    """Claim a shard that can be claimed."""
    shard = claim(stage, conducts=conducts, worker=worker)
    assert shard is not None
    return shard


def start(stage: ShardedStage, shard: ClaimedShard) -> int | None:
    """Record the run of a try; return its id."""
    return job_moves.start_run(stage.job, build=stage.build, stage=stage.stage, shard=shard)


def started(stage: ShardedStage, *, conducts: bool = False) -> tuple[ClaimedShard, int]:
    """Claim a shard and record its run; return both."""
    shard = claimed(stage, conducts=conducts)
    run_id = start(stage, shard)
    assert run_id is not None
    return shard, run_id


def end(shard: ClaimedShard, run_id: int, *, status: str = "done", billed_ms: int = 3000) -> bool:
    """End a shard with a result."""
    result = {"status": "completed", "stopped_for": None}
    run_fields = {**RUN, "run_id": run_id}
    return shard_moves.end_shard(shard, status, result=result, billed_ms=billed_ms, run_fields=run_fields)  # type: ignore[arg-type]


def row(shard: ClaimedShard) -> Shard:
    return Shard.objects.get(pk=shard.shard_id)


def allotted(stage: ShardedStage) -> int:
    """Return the milliseconds allotted in the stage, and assert that they are the sum over its shards."""
    stage.refresh_from_db(fields=["allotted_ms"])
    assert stage.allotted_ms == sum(each.billed_ms + each.allowance_ms for each in stage.shards.all())
    return stage.allotted_ms


def expire(shard: ClaimedShard) -> None:
    """Let the lease of a shard expire."""
    Shard.objects.filter(pk=shard.shard_id).update(lease_expires_at=Now() - 1 * shard_moves.VOID_KEPT)


def run_of(shard: ClaimedShard) -> Run:
    """Return the run of a try."""
    stage = ShardedStage.objects.get(pk=shard.stage_id)
    return Run.objects.get(job_id=stage.job_id, stage=stage.stage, shard=shard.number, try_number=shard.try_number)
