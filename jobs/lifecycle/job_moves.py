"""State machine of jobs, the only module that changes their status: `docs/reference/state-machine.md`.

Each move is one UPDATE that names the expected status and attempt, and writes a JobEvent in the same transaction.
If two processes move a job at once, the second updates no row and gets `MoveResult.TAKEN`. Frequent moves have
statements of their own (`jobs/lifecycle/job_moves.sql`).
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, Sum
from django.db.models.functions import Coalesce, Now

from billing import ledger, prices
from jobs.artifacts import credentials, storage
from jobs.enums import (
    ALL_LANES,
    CLAIMED,
    ErrorCode,
    LaneRange,
    MoveResult,
    Priority,
    Renewal,
    ReturnCause,
    Status,
)
from jobs.lifecycle import counters, usage, webhook_events
from jobs.lifecycle.transitions import GROUPS, JobMove, ShardMove, require
from jobs.live.progress import last_percent
from jobs.models import CHARACTER_LENGTH, Artifact, Build, Job, JobEvent, Shard
from simc import report_details
from simservice.ids import NEW_ID
from simservice.postgresql.statements import RowReader, load, run
from webhooks import events

# This many losses of one shard lose the job's attempt.
MAX_LOSSES = 3
# A job is committed at most this many seconds after its id was made; if later, it may be claimed a little late.
COMMIT_SECONDS = 10
CLAIMED_JOB = RowReader(Job)
ARTIFACT_FIELDS = Artifact._meta.concrete_fields  # noqa: SLF001 - documented by Django
SQL = load(
    __file__,
    ledger.SQL,
    storage.SQL,
    usage.SQL,
    events.SQL,
    GROUPS,
    JobMove.fragments(),
    ShardMove.fragments(),
    max_losses=str(MAX_LOSSES),
    new_id=NEW_ID,
    claimed_columns=CLAIMED_JOB.columns,
    artifact_columns=", ".join(str(field.column) for field in ARTIFACT_FIELDS),
    artifact_values=", ".join(f"artifact.{field.column}" for field in ARTIFACT_FIELDS),
)

RELEASED = {"worker": "", "lease_expires_at": None}
ANY = Q()
LEASE_EXPIRED = Q(lease_expires_at__lt=Now())
STALLED = LEASE_EXPIRED & Q(status__in=CLAIMED)
CANCEL_REQUESTED = Q(cancel_requested_at__isnull=False)
PAUSE_REQUESTED = Q(pause_requested_at__isnull=False)
IS_PAUSED = Q(paused_at__isnull=False)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a job. `sim_duration_ms` and `slots_used` are None if no simulator process ran.

    `slots_used` is the number of slots that ran simulators to their end.
    `warnings` are those of a job without a summary, which otherwise has them.
    `details` are those of the result as `jobs.results.details.packed` returns them. `ranking` is the list of all
    profilesets (`jobs/results/rankings.py`) if the summary lists only some. `percent` is the progress, None for
    the last published value.
    """

    status: Status
    error_code: str | None = None
    reason: str | None = None
    exit_code: str | None = None
    sim_duration_ms: int | None = None
    slots_used: int | None = None
    credits_consumed: int = 0
    summary: dict[str, Any] | None = None
    warnings: Sequence[str] = ()
    ranking: bytes | None = None
    missing_artifacts: Sequence[dict[str, Any]] = ()
    details: bytes | None = None
    percent: float | None = None


# The job was cancelled while no simulator ran.
CANCELLED = Outcome(
    status=Status.CANCELLED,
    error_code=ErrorCode.USER_CANCELLED,
    reason="The job was cancelled before it ran. Nothing is billed.",
)
# The job was cancelled while it waited for its next attempt, without finished shards.
CANCELLED_WAITING = Outcome(
    status=Status.CANCELLED,
    error_code=ErrorCode.USER_CANCELLED,
    reason="The job was cancelled while it waited to run again. Nothing is billed.",
)
# The worker of a job was lost after a request to cancel the job.
CANCELLED_LOST = Outcome(
    status=Status.CANCELLED,
    error_code=ErrorCode.USER_CANCELLED,
    reason="The job was cancelled and its worker was lost. Nothing is billed.",
)
# The job's branch has no available build.
BUILD_UNAVAILABLE = Outcome(
    status=Status.FAILED,
    error_code=ErrorCode.BUILD_UNAVAILABLE,
    reason="No build is available for the job's channel and branch. Nothing is billed.",
)

INTERNAL = Outcome(
    status=Status.FAILED,
    error_code=ErrorCode.INTERNAL,
    reason="An internal error ended the job. Nothing is billed.",
)


def move(
    job: Job, made: JobMove, *, reason: str = "", cause: str = "", guard: Q = ANY, **changes: Any
) -> MoveResult:
    """Move `job` from the status and attempt of this instance, if the row still has them and matches `guard`.

    If the move is done, the instance has the new status and attempt; `changes` are made in the database only.
    Raises IllegalTransition if the move does not lead from the status of this instance.
    """
    (to,) = made.targets
    require(job.status, to, made)
    attempt = changes.get("attempt", job.attempt)
    with transaction.atomic():
        expected = Job.objects.filter(pk=job.pk, status=job.status, attempt=job.attempt)
        if not expected.filter(guard).update(status=to, updated_at=Now(), **changes):
            return MoveResult.GUARD_FAILED if guard != ANY and expected.exists() else MoveResult.TAKEN
        JobEvent.objects.create(
            job_id=job.pk,
            at=Now(),
            from_status=job.status,
            to_status=to,
            attempt=attempt,
            reason=reason[:500],
            cause=cause,
        )
    job.status, job.attempt = to, attempt
    return MoveResult.DONE


def record_restart(job: Job, reason: str) -> None:
    """Record that the attempt starts stages again. Call this with the job's row locked."""
    require(job.status, job.status, JobMove.RESTART_EARLY, JobMove.RESTART)
    JobEvent.objects.create(
        job_id=job.pk,
        at=Now(),
        from_status=job.status,
        to_status=job.status,
        attempt=job.attempt,
        reason=reason[:500],
    )


def mark_queued(job: Job) -> MoveResult:
    """Record that a pending job was announced to the workers. One statement. Raises IllegalTransition."""
    require(job.status, Status.QUEUED, JobMove.ANNOUNCE)
    if not run(SQL["mark_queued"], values={"job_id": job.pk, "attempt": job.attempt}):
        return MoveResult.TAKEN
    job.status = Status.QUEUED
    return MoveResult.DONE


def claim_job(
    worker: str,
    *,
    lanes: LaneRange = ALL_LANES,
    skipped_stages: Collection[int] = (),
    skipped_branches: Collection[str] = (),
    first_ids: Mapping[int, int] = MappingProxyType({}),
) -> Job | None:
    """Assign the best waiting job in `lanes` to `worker`, with a new attempt and a new lease.

    The best job has the highest priority and, among equals, the earliest submission
    (`docs/reference/api.md#priority`). Overdue jobs are skipped, because the sweep ends them, and so are jobs
    on `skipped_branches`. Return None if no other job waits, or if a shard of a stage that is not in
    `skipped_stages` comes first. In each lane, the search begins at its id in `first_ids` (`find_first_ids`). One
    statement.
    """
    values = values_of_claim(
        worker,
        lanes=lanes,
        skipped_stages=skipped_stages,
        skipped_branches=skipped_branches,
        first_ids=first_ids,
    )
    rows = run(SQL["claim_job"], values=values)
    return CLAIMED_JOB.instance(rows[0]) if rows else None


def values_of_claim(
    worker: str,
    *,
    lanes: LaneRange = ALL_LANES,
    skipped_stages: Collection[int] = (),
    skipped_branches: Collection[str] = (),
    first_ids: Mapping[int, int] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the values of the statement `claim_job`."""
    numbers = range(lanes.first, lanes.last + 1)
    return {
        "lanes": list(numbers),
        "first_ids": [first_ids.get(number, 0) for number in numbers],
        "first_lane": lanes.first,
        "last_lane": lanes.last,
        "skipped": list(skipped_stages),
        "skipped_branches": list(skipped_branches),
        "worker": worker,
        "reason": f"claimed by {worker}"[:500],
        "lease_seconds": settings.LEASE_SECONDS,
    }


def find_first_ids() -> dict[int, int]:
    """Return for each lane an id below which no job waits, except for jobs that an attempt returned to the queue.

    It stays valid unless a job is committed `COMMIT_SECONDS` after its id was made. One statement.
    """
    values = {"lanes": list(Priority), "commit_seconds": COMMIT_SECONDS}
    return dict(run(SQL["find_first_ids"], values=values))


def lease_end() -> Any:
    """Return the database expression for the end of a lease taken now."""
    return Now() + timedelta(seconds=settings.LEASE_SECONDS)


def renew_lease(job: Job) -> Renewal:
    """Renew the lease of the job, and return which request it has, if any. One statement."""
    parameters = {"job_id": job.pk, "attempt": job.attempt, "lease_seconds": settings.LEASE_SECONDS}
    rows = run(SQL["renew_lease"], values=parameters)
    if not rows:
        return Renewal.LOST
    is_cancelled, is_pausing = rows[0]
    return _renewal(is_cancelled=is_cancelled, is_pausing=is_pausing)


def _renewal(*, is_cancelled: bool, is_pausing: bool) -> Renewal:
    """Return the result of a renewal. A cancellation comes first, because it ends the job."""
    if is_cancelled:
        return Renewal.CANCEL_REQUESTED
    return Renewal.PAUSE_REQUESTED if is_pausing else Renewal.DONE


def extend_hold(job: Job, credits_more: int) -> bool:
    """Reserve more credits for a job. Return False if another attempt has the job or it has ended.

    The row is locked, so the job cannot end or be requeued at the same time. Raises InsufficientCredits.
    """
    with transaction.atomic():
        if not lock_row(job):
            return False
        ledger.extend(job.pk, credits_more)
    return True


def request_cancel(job: Job) -> bool:
    """Request the cancellation of a claimed job; the time of the first request is kept.

    Return False if another attempt has the job or it has ended.
    """
    row = Job.objects.filter(pk=job.pk, attempt=job.attempt, status__in=CLAIMED)
    return bool(row.update(cancel_requested_at=Coalesce("cancel_requested_at", Now()), updated_at=Now()))


def request_pause(job: Job) -> bool:
    """Request that a claimed job returns to the queue and is paused.

    Return False if another attempt has the job or it has ended.
    """
    row = Job.objects.filter(pk=job.pk, attempt=job.attempt, status__in=CLAIMED)
    return bool(row.update(pause_requested_at=Coalesce("pause_requested_at", Now()), updated_at=Now()))


def withdraw_pause(job: Job) -> None:
    """Withdraw the request to pause a claimed job. An attempt that has noticed it returns the job to the queue."""
    Job.objects.filter(PAUSE_REQUESTED, pk=job.pk).update(pause_requested_at=None, updated_at=Now())


def requests_of(job: Job) -> Renewal:
    """Return which request a job has, as a renewal of its lease does, without renewing it. One query."""
    row = Job.objects.filter(pk=job.pk).values_list("cancel_requested_at", "pause_requested_at").first()
    cancel_requested_at, pause_requested_at = row or (None, None)
    return _renewal(is_cancelled=cancel_requested_at is not None, is_pausing=pause_requested_at is not None)


@dataclass(frozen=True, kw_only=True)
class Try:
    """A try of a shard of a stage, as its run records it. A stage of one shard has no row of a shard, and one try.

    `seat` is the number of the slot among those of the job; 0 is the slot that claimed the job.
    """

    stage_id: int | None = None
    shard_id: int | None = None
    number: int = 0
    try_number: int = 1
    seat: int = 0


ONLY_TRY = Try()


def start_run(job: Job, *, build: Build, stage: int = 1, shard: Try = ONLY_TRY) -> int | None:
    """Record the simulator process of a try, and return the id of its run. One round trip; safe to repeat.

    The first run moves the job to running. Return None if another attempt has the job, if it has ended, or if the
    shard belongs to another try.
    """
    if job.status != Status.RUNNING:
        require(job.status, Status.RUNNING, JobMove.START)
    parameters = {
        "job_id": job.pk,
        "attempt": job.attempt,
        "build_id": build.pk,
        "stage": stage,
        "stage_id": shard.stage_id,
        "shard_id": shard.shard_id,
        "shard": shard.number,
        "try_number": shard.try_number,
        "seat": shard.seat,
    }
    # The lock of the stage keeps the shard from being returned at the same time. The job is always locked first.
    locks = () if shard.stage_id is None else (SQL["lock_job"], SQL["lock_sharded_stage"])
    rows = run(*locks, SQL["start_run"], values=parameters)
    if not rows:
        return None
    job.status = Status.RUNNING
    return int(rows[0][0])


def end_run(fields: Mapping[str, Any]) -> Iterator[int]:
    """Record how the process of a run ended, unless the run was already recorded as lost. One statement.

    `fields` are the parameters of the part `run_end`, and `run_id`. Return ids for the rows of its artifacts.
    """
    rows = run(SQL["end_run"], values={**fields, "count": len(Artifact.Kind)})
    return iter([artifact_id for (artifact_id,) in rows])


def lock_row(job: Job) -> bool:
    """Lock the job's row for the transaction. Return False if another attempt has the job or it has ended."""
    row = Job.objects.select_for_update(no_key=True).filter(pk=job.pk, attempt=job.attempt, status__in=CLAIMED)
    return row.values_list("pk").first() is not None


def requeue(
    job: Job,
    *,
    reason: str,
    cause: ReturnCause = ReturnCause.LOST,
    guard: Q = ANY,
    queue_deadline_at: Any = None,
) -> MoveResult:
    """Return a job to its original place in the queue, by default with a new queue deadline.

    If a pause was requested, the job is then paused. If cancellation was requested, end the job instead.
    """
    deadline = queue_deadline_at or _new_deadline(job)
    # Read before the transaction, so that a slow Redis does not prolong it.
    cancelled = replace(CANCELLED_LOST, percent=last_percent(job))
    with transaction.atomic():
        is_queued = move(
            job,
            JobMove.REQUEUE,
            reason=reason,
            cause=cause,
            guard=guard & ~CANCEL_REQUESTED,
            queue_deadline_at=deadline,
            started_at=None,
            build=None,
            **RELEASED,
        )
        if is_queued:
            # First, because it locks the balance
            if Job.objects.filter(PAUSE_REQUESTED, pk=job.pk).exists():
                pause(job)
            end_lost_runs(job)
            transaction.on_commit(partial(counters.record_requeue, job, cause=cause))
        return is_queued or finish(job, cancelled, guard=guard & CANCEL_REQUESTED)


def _new_deadline(job: Job) -> Any:
    """Return the database expression for the queue deadline of a job that begins to wait now."""
    return Now() + timedelta(seconds=job.ceiling_queue_seconds)


def pause(job: Job) -> MoveResult:
    """Keep a waiting job from being claimed, and return the credits that it does not need until it is resumed.

    Its hold keeps the fee and the price of its ended shards, at least one credit, so helpers lose the shards
    that they still run. It has a new queue deadline.
    """
    with transaction.atomic():
        paused = move(
            job,
            JobMove.PAUSE,
            cause=ReturnCause.PAUSED,
            guard=~IS_PAUSED,
            paused_at=Coalesce("pause_requested_at", Now()),
            pause_requested_at=None,
            queue_deadline_at=_new_deadline(job),
        )
        if paused:
            price = prices.of_time(kept_ms(job), credits_per_second=job.credits_per_second)
            ledger.shrink(job.pk, keep=max(1, price + job.priority_fee_credits))
            run(SQL["lock_sharded_stages"], SQL["return_shards"], values={"job_id": job.pk})
    return paused


def kept_ms(job: Job) -> int:
    """Return the billed time of the ended shards, which the next attempt does not run again. One query."""
    return int(Shard.objects.filter(stage__job=job).aggregate(total=Sum("billed_ms", default=0))["total"])


def resume(job: Job) -> MoveResult:
    """Return a paused job to its original place in the queue, with a new queue deadline."""
    return move(
        job,
        JobMove.RESUME,
        cause=ReturnCause.RESUMED,
        guard=IS_PAUSED,
        paused_at=None,
        queue_deadline_at=_new_deadline(job),
    )


def end_lost_runs(job: Job) -> None:
    """Mark the unfinished runs of the slot that had the job as lost. Their duration is unknown.

    Helpers finish their shards for the next attempt.
    """
    run(SQL["end_lost_runs"], values={"job_id": job.pk, "attempt": job.attempt})


def finish(job: Job, outcome: Outcome, *, guard: Q = ANY, artifacts: Sequence[Artifact] = ()) -> MoveResult:
    """End the job, settle its credits, record its usage and write its webhook event, all or nothing.

    Also inserts its details and the rows of `artifacts`. Does not change the instance, so the call can be repeated
    if the database fails. Takes one round trip if it is outside a transaction and has no guard. Raises HoldError.
    """
    require(job.status, outcome.status, JobMove.ABANDON, JobMove.END)
    if outcome.percent is None:
        # Read before the transaction, so that a slow Redis does not prolong it.
        outcome = replace(outcome, percent=last_percent(job))
    if guard == ANY:
        return _end(job, outcome, artifacts)
    with transaction.atomic():
        refusal = _refusal(job, guard)
        return refusal if refusal is not None else _end(job, outcome, artifacts)


def _refusal(job: Job, guard: Q) -> MoveResult | None:
    """Lock the job's row for the transaction. Return why the job cannot be moved, or None if it can."""
    expected = Job.objects.filter(pk=job.pk, status=job.status, attempt=job.attempt)
    if expected.filter(guard).select_for_update(no_key=True).values_list("pk").first() is not None:
        return None
    return MoveResult.GUARD_FAILED if expected.exists() else MoveResult.TAKEN


def _end(job: Job, outcome: Outcome, artifacts: Sequence[Artifact]) -> MoveResult:
    """End the job if it has the status and attempt of this instance. Raises HoldError."""
    parameters = _end_parameters(job, outcome) | {
        "artifacts": json.dumps([_row_of(each) for each in artifacts], default=str)
    }
    rows = run(SQL["lock_job"], ledger.SQL["lock_payer"], SQL["end_job"], values=parameters)
    if not rows:
        if Job.objects.filter(pk=job.pk, status=job.status, attempt=job.attempt).exists():
            raise ledger.hold_error(job.pk, spent=outcome.credits_consumed)
        return MoveResult.TAKEN
    if job.wants_webhook:
        transaction.on_commit(events.announce)
    if job.has_credentials:
        transaction.on_commit(partial(credentials.forget, job.pk))
    transaction.on_commit(
        partial(counters.record_end, job, outcome=outcome.error_code or outcome.status, ran_seconds=rows[0][0])
    )
    return MoveResult.DONE


def _end_parameters(job: Job, outcome: Outcome) -> dict[str, Any]:
    """Return the parameters of `end_job` without the artifacts."""
    reason = outcome.reason and outcome.reason[:500]
    payload = webhook_events.end_payload(job, status=outcome.status, reason=reason, error_code=outcome.error_code)
    return events.parameters(payload) | {
        "job_id": job.pk,
        "from_status": job.status,
        "attempt": job.attempt,
        "status": outcome.status,
        "error_code": outcome.error_code,
        "status_reason": reason,
        "exit_code": outcome.exit_code,
        "sim_duration_ms": outcome.sim_duration_ms,
        "slots_used": outcome.slots_used,
        "spent": outcome.credits_consumed,
        "summary": None if outcome.summary is None else json.dumps(outcome.summary),
        "warnings": json.dumps(list(outcome.warnings)),
        "ranking": outcome.ranking,
        "character": _character_in(outcome.summary) or job.character,
        "missing_artifacts": json.dumps(list(outcome.missing_artifacts)),
        "details": outcome.details,
        "details_version": report_details.VERSION,
        "percent": outcome.percent,
    }


def _row_of(artifact: Artifact) -> dict[str, Any]:
    """Return the columns of an artifact for its insertion."""
    return {str(field.column): field.value_from_object(artifact) for field in ARTIFACT_FIELDS}


def _character_in(summary: Mapping[str, Any] | None) -> str:
    """Return the name of the first character in a summary, an empty text if it was not reached."""
    found = summary or {}
    actors = [] if found.get("not_reached", {}).get("actors") else found.get("actors", {}).get("results", [])
    first: Mapping[str, Any] = found.get("mainActor") or next(iter(actors), {})
    return str(first.get("name", ""))[:CHARACTER_LENGTH]
