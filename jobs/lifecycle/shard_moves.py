"""Moves of shards, the only module that changes their status: `docs/reference/state-machine.md#shards`.

Each move is one statement under a lock of its stage, and names the try that it expects. A process that lost its
shard, or whose job has ended, updates no row and stops, and so does a conductor whose stage was adopted.
"""

import json
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from jobs.enums import ALL_LANES, TERMINAL, LaneRange, ShardStatus, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Try
from jobs.lifecycle.transitions import GROUPS, JobMove, ShardMove, require
from jobs.models import Job, Run, Shard, ShardedStage
from simservice.postgresql.statements import load, run

SQL = load(__file__, job_moves.SQL, GROUPS, ShardMove.fragments())
# The conductor that ends a job removes its stages. Those of a lost conductor are kept for a while longer, so that
# they can be inspected.
VOID_KEPT = timedelta(minutes=1)
VOID_BATCH = 20


@dataclass(frozen=True, kw_only=True)
class ClaimedShard(Try):
    """A try of a shard, claimed by a slot. `allowance_ms` is the simulator time that it may use at first."""

    shard_id: int
    stage_id: int
    allowance_ms: int
    text: str
    profilesets: int
    full_baseline: bool

    @property
    def key(self) -> dict[str, int]:
        """Return the parameters that identify this try in statements."""
        return {"stage_id": self.stage_id, "shard_id": self.shard_id, "try_number": self.try_number}


@dataclass(frozen=True, kw_only=True)
class ShardRenewal:
    """The result of a renewal: the new allowance, the time left for other shards, and any reason to stop."""

    allowance_ms: int
    free_ms: int
    is_cancelled: bool
    stop_reason: str


@dataclass(frozen=True, kw_only=True)
class StageState:
    """The shards of a stage: how many wait, run, have failed and were stopped.

    `done` is the number of profilesets of the shards that are done, `losses` the most losses of one shard.
    `expired` contains the id and the try of each running shard whose lease has expired.
    """

    waiting: int
    running: int
    failed: int
    stopped: int
    done: int
    losses: int
    free_ms: int
    funded_ms: int
    expired: Sequence[tuple[int, int]]


def create_stage(stage: ShardedStage, shards: Sequence[Shard], job: Job) -> bool:
    """Insert a stage and its waiting shards; safe to repeat.

    Return False if another attempt has the job or it has ended.
    """
    with transaction.atomic():
        if not job_moves.lock_row(job):
            return False
        # An earlier call may have been committed although its response was lost. No query for a new stage.
        if not ShardedStage.objects.filter(pk=stage.pk).exists():
            stage.save(force_insert=True)
            Shard.objects.bulk_create(shards)
    return True


def find_open_stage(skipped: Collection[int], *, lanes: LaneRange = ALL_LANES) -> int | None:
    """Return the id of the open stage that comes first, without those that are `skipped`; None if none is open."""
    values = {"skipped": list(skipped), "first_lane": lanes.first, "last_lane": lanes.last}
    rows = run(job_moves.SQL["find_open_stage"], values=values)
    return rows[0][0] if rows else None


def claim_shard(
    stage_id: int, *, worker: str, attempt: int | None = None, lanes: LaneRange = ALL_LANES
) -> ClaimedShard | None:
    """Start a try of the stage's next waiting shard, for the conductor if `attempt` is given, else for a helper.

    Return None if `claim_shard` does not allow it.
    """
    values = {
        "stage_id": stage_id,
        "first_lane": lanes.first,
        "worker": worker,
        "attempt": attempt,
        "lease_seconds": settings.LEASE_SECONDS,
    }
    rows = run(job_moves.SQL["lock_sharded_stage"], SQL["claim_shard"], values=values)
    if not rows:
        return None
    shard_id, stage_id, number, try_number, seat, allowance_ms, text, profilesets, full_baseline = rows[0]
    return ClaimedShard(
        shard_id=shard_id,
        stage_id=stage_id,
        number=number,
        try_number=try_number,
        seat=seat,
        allowance_ms=allowance_ms,
        text=text,
        profilesets=profilesets,
        full_baseline=full_baseline,
    )


def renew_shard(shard: ClaimedShard, *, wanted_ms: int) -> ShardRenewal | None:
    """Renew the lease of a try, and extend its allowance by up to `wanted_ms`. Return None if the try is void."""
    values = {**shard.key, "wanted_ms": wanted_ms, "lease_seconds": settings.LEASE_SECONDS}
    rows = run(job_moves.SQL["lock_sharded_stage"], SQL["renew_shard"], values=values)
    if not rows:
        return None
    allowance_ms, free_ms, is_cancelled, stop_reason = rows[0]
    return ShardRenewal(
        allowance_ms=allowance_ms, free_ms=free_ms, is_cancelled=is_cancelled, stop_reason=stop_reason
    )


def end_shard(
    shard: ClaimedShard, status: ShardStatus, *, result: dict[str, Any], billed_ms: int, run_fields: dict[str, Any]
) -> bool:
    """End a try and its run. Return False if the try is void. Safe to repeat.

    `run_fields` are the parameters `run_id`, `wall_ms` and so on of `end_shard`. At most the try's allowance
    is billed. Raises IllegalTransition.
    """
    require(ShardStatus.RUNNING, status, ShardMove.END)
    values = {**shard.key, **run_fields, "status": status, "result": json.dumps(result), "billed_ms": billed_ms}
    if run(SQL["share_job"], job_moves.SQL["lock_sharded_stage"], SQL["end_shard"], values=values):
        return True
    # An earlier call may have been committed although its response was lost.
    ended = Shard.objects.filter(pk=shard.shard_id, try_number=shard.try_number, status=status)
    return ended.exists()


def return_shard(shard: ClaimedShard, *, losses: int) -> bool:
    """Return a try's shard to the stage's queue, and add `losses`. Return False if the try is over."""
    return _return(shard.stage_id, shard.shard_id, shard.try_number, losses=losses)


def lose_expired(stage: ShardedStage, shard_id: int, try_number: int) -> bool:
    """Return a shard whose lease has expired to the stage's queue, and count a loss."""
    return _return(stage.pk, shard_id, try_number, losses=1, attempt=stage.attempt, expired_only=True)


def lose_shards_of(worker: str) -> int:
    """Return the shards of a dead worker process to their stages' queues. Return how many."""
    held = Shard.objects.filter(status=ShardStatus.RUNNING, worker__startswith=f"{worker}:")
    rows = held.values_list("stage_id", "pk", "try_number")
    return sum(_return(*row, losses=1) for row in rows)


def _return(
    stage_id: int,
    shard_id: int,
    try_number: int,
    *,
    losses: int,
    attempt: int | None = None,
    expired_only: bool = False,
) -> bool:
    values = {
        "stage_id": stage_id,
        "shard_id": shard_id,
        "try_number": try_number,
        "losses": losses,
        "attempt": attempt,
        "expired_only": expired_only,
    }
    return bool(run(job_moves.SQL["lock_sharded_stage"], SQL["return_shard"], values=values))


def reject_shard(shard: Shard, *, attempt: int, text: str | None = None) -> bool:
    """Return a done shard, whose report the attempt cannot use, to the stage's queue, and count a loss.

    With a new `text`, its next try runs the full baseline, whose numbers the profilesets inherit.
    """
    values = {
        "stage_id": shard.stage_id,
        "shard_id": shard.pk,
        "try_number": shard.try_number,
        "attempt": attempt,
        "text": text,
    }
    return bool(run(job_moves.SQL["lock_sharded_stage"], SQL["reject_shard"], values=values))


def fund_stage(stage: ShardedStage, *, funded_ms: int) -> bool:
    """Record that the job's hold pays for this much simulator time in the stage. Return False if it was removed."""
    return bool(run(SQL["fund_sharded_stage"], values={**_key_of(stage), "funded_ms": funded_ms}))


def stop_stage(stage: ShardedStage, reason: str) -> bool:
    """Stop the stage's running shards, and let no other start. Return False if it was stopped before."""
    values = {**_key_of(stage), "stop_reason": reason}
    return bool(run(job_moves.SQL["lock_sharded_stage"], SQL["stop_sharded_stage"], values=values))


def _key_of(stage: ShardedStage) -> dict[str, int]:
    """Return the parameters that identify a stage, and the attempt that conducts it, in statements."""
    return {"stage_id": stage.pk, "attempt": stage.attempt}


def read_stage(stage: ShardedStage) -> StageState | None:
    """Return the state of a stage's shards, or None if it was removed or has another attempt. One query."""
    (row,) = run(SQL["read_sharded_stage"], values=_key_of(stage))
    if row[5] is None:
        return None
    waiting, running, failed, stopped, done, losses, free_ms, funded_ms, expired = row
    return StageState(
        waiting=waiting,
        running=running,
        failed=failed,
        stopped=stopped,
        done=int(done),
        losses=losses,
        free_ms=free_ms,
        funded_ms=funded_ms,
        expired=[(shard_id, try_number) for shard_id, try_number in json.loads(expired)],
    )


def adopt_stage(stage: ShardedStage, job: Job, *, funded_ms: int) -> bool:
    """Give a stage of an earlier attempt to the attempt of this instance, which then runs; safe to repeat.

    The build was tested by the attempt before, so helpers can start at once. Return False if another attempt has
    the job, if it has ended, or if the stage was removed.
    """
    values = {"stage_id": stage.pk, "attempt": job.attempt, "funded_ms": funded_ms}
    moved = copy(job)
    with transaction.atomic():
        if not job_moves.lock_row(job):
            return False
        rows = run(job_moves.SQL["lock_sharded_stage"], SQL["adopt_stage"], values=values)
        done, count = rows[0]
        if not count:
            return False
        if job.status == Status.STARTING:
            reason = f"continues stage {stage.stage} with {done} of {count} shards done"
            job_moves.move(moved, JobMove.START, reason=reason, build=stage.build, started_at=Now())
    stage.created_by_attempt, stage.attempt = stage.creator, job.attempt
    job.status = Status.RUNNING
    return True


def discard_stages(job: Job, *, first: int, reason: str) -> list[tuple[int, int, int]] | None:
    """Remove the job's stages from a number on, so that they start again, and record why; safe to repeat.

    Return the stage's id, the number and the tries of each removed shard; None if another attempt has the job or
    it has ended.
    """
    with transaction.atomic():
        if not job_moves.lock_row(job):
            return None
        rows = run(SQL["discard_stages"], values={"job_id": job.pk, "first": first})
        if rows:
            job_moves.record_restart(job, reason)
    return [(stage_id, number, tries) for stage_id, number, tries in rows]


def remove_stage(stage_id: int) -> bool:
    """Remove a stage and its shards if its job has ended. Return False if it has not, or if nothing is left."""
    return bool(run(job_moves.SQL["lock_sharded_stage"], SQL["remove_stage"], values={"stage_id": stage_id}))


def remove_void_stages() -> int:
    """Remove a batch of stages whose job ended without its conductor. Return how many.

    Retention removes their files.
    """
    void = ShardedStage.objects.filter(job__status__in=TERMINAL, job__completed_at__lt=Now() - VOID_KEPT)
    stage_ids = list(void.values_list("pk", flat=True)[:VOID_BATCH])
    for stage_id in stage_ids:
        remove_stage(stage_id)
    return len(stage_ids)


def productive_attempts(job: Job) -> set[int]:
    """Return the attempts in which a done shard of a kept stage started. One query."""
    return {attempt for (attempt,) in run(SQL["productive_attempts"], values={"job_id": job.pk})}


def slots_used(job: Job) -> int:
    """Return how many slots ran the job's simulators to their end, in all attempts. One query."""
    return Run.objects.filter(job_id=job.pk, wall_ms__isnull=False).values("seat").distinct().count()
