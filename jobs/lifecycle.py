"""State machine of jobs, the only module that changes their status: `docs/reference/state-machine.md`.

Each move is one UPDATE that names the expected status and attempt, and writes a JobEvent in the same transaction.
If two processes move a job at once, the second updates no row and gets `MoveResult.TAKEN`.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Coalesce, Now

from billing import ledger
from jobs import credentials, usage, webhook_events
from jobs.enums import CLAIMED, TERMINAL, ErrorCode, MoveResult, Status
from jobs.models import CHARACTER_LENGTH, Build, Job, JobEvent, Run
from jobs.progress import last_percent
from jobs.simulator.stop_reasons import StopReason

ENDS = frozenset(TERMINAL)
TRANSITIONS: dict[str, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.QUEUED, Status.STARTING, Status.FAILED, Status.CANCELLED}),
    Status.QUEUED: frozenset({Status.STARTING, Status.FAILED, Status.CANCELLED}),
    Status.STARTING: frozenset({Status.RUNNING, Status.QUEUED}) | ENDS,
    Status.RUNNING: frozenset({Status.QUEUED}) | ENDS,
}
RELEASED = {"worker": "", "lease_expires_at": None}
ANY = Q()
LEASE_EXPIRED = Q(lease_expires_at__lt=Now())
CANCEL_REQUESTED = Q(cancel_requested_at__isnull=False)

# Moves a pending job with an id and an attempt to queued, and writes its event. Inserts no row if it has moved on.
MARK_QUEUED = """
    WITH moved AS (
        UPDATE jobs_job SET status = 'queued', updated_at = statement_timestamp()
        WHERE id = %s AND attempt = %s AND status = 'pending' RETURNING id, attempt
    )
    INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
    SELECT id, statement_timestamp(), 'pending', 'queued', attempt, '' FROM moved
"""


class IllegalTransition(Exception):
    """The state machine does not have this move. It is a bug, not a race."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a job. `sim_duration_ms` is None if no simulator process ran.

    `percent` is the progress of the job, None for the last published value.
    """

    status: Status
    error_code: str | None = None
    reason: str | None = None
    exit_code: str | None = None
    sim_duration_ms: int | None = None
    credits_consumed: int = 0
    summary: dict[str, Any] | None = None
    missing_artifacts: Sequence[dict[str, Any]] = ()
    percent: float | None = None


# The job was cancelled while no simulator ran.
CANCELLED = Outcome(
    status=Status.CANCELLED,
    error_code=ErrorCode.USER_CANCELLED,
    reason="The job was cancelled before it ran. Nothing is billed.",
)
# The worker of a job was lost after a request to cancel the job.
CANCELLED_LOST = Outcome(
    status=Status.CANCELLED,
    error_code=ErrorCode.USER_CANCELLED,
    reason="The job was cancelled and its worker was lost. Nothing is billed.",
)

INTERNAL = Outcome(
    status=Status.FAILED,
    error_code=ErrorCode.INTERNAL,
    reason="An internal error ended the job. Nothing is billed.",
)


def move(job: Job, *, to: Status, reason: str = "", guard: Q = ANY, **changes: Any) -> MoveResult:
    """Move `job` from the status and attempt of this instance, if the row still has them and matches `guard`.

    If the move is done, the instance has the new status and attempt; `changes` are made in the database only.
    Raises IllegalTransition if TRANSITIONS does not have the move.
    """
    if to not in TRANSITIONS.get(job.status, ()):
        raise IllegalTransition(f"{job.status} → {to}")
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
        )
    job.status, job.attempt = to, attempt
    return MoveResult.DONE


def accept(job: Job) -> None:
    """Insert a new job and its first event. Call in the transaction of the submission."""
    job.save(force_insert=True)
    JobEvent.objects.create(job=job, at=Now(), to_status=job.status, attempt=0)


def mark_queued(job: Job) -> MoveResult:
    """Record that a pending job was announced to the workers: `move(job, to=Status.QUEUED)` in one statement.

    Raises IllegalTransition.
    """
    if job.status != Status.PENDING:
        raise IllegalTransition(f"{job.status} → {Status.QUEUED}")
    with connection.cursor() as cursor:
        cursor.execute(MARK_QUEUED, [job.pk, job.attempt])
        if not cursor.rowcount:
            return MoveResult.TAKEN
    job.status = Status.QUEUED
    return MoveResult.DONE


def start_attempt(job: Job, *, worker: str) -> MoveResult:
    """Assign a waiting job to `worker`, with a new attempt and a new lease."""
    return move(
        job,
        to=Status.STARTING,
        reason=f"claimed by {worker}",
        attempt=job.attempt + 1,
        worker=worker,
        lease_expires_at=lease_end(),
    )


def lease_end() -> Any:
    """Return the database expression for the end of a lease taken now."""
    return Now() + timedelta(seconds=settings.LEASE_SECONDS)


def renew_lease(job: Job) -> bool:
    """Renew the lease of the job. Return False if another attempt has the job or it has ended."""
    row = Job.objects.filter(pk=job.pk, attempt=job.attempt, status__in=CLAIMED)
    return bool(row.update(lease_expires_at=lease_end()))


def extend_hold(job: Job, credits_more: int) -> bool:
    """Reserve more credits for a job. Return False if another attempt has the job or it has ended.

    The row is locked, so the job cannot end or be requeued at the same time. Raises InsufficientCredits.
    """
    with transaction.atomic():
        if not _lock_row(job):
            return False
        ledger.extend(job.pk, credits_more)
    return True


def request_cancel(job: Job) -> bool:
    """Request the cancellation of a claimed job; the time of the first request is kept.

    Return False if another attempt has the job or it has ended.
    """
    row = Job.objects.filter(pk=job.pk, attempt=job.attempt, status__in=CLAIMED)
    return bool(row.update(cancel_requested_at=Coalesce("cancel_requested_at", Now()), updated_at=Now()))


def cancel_requested(job: Job) -> bool:
    """Return whether cancellation was requested. One query."""
    return Job.objects.filter(CANCEL_REQUESTED, pk=job.pk).exists()


def start_run(job: Job, *, build: Build, stage: int = 1) -> Run | None:
    """Record the simulator process of a stage. The first one moves the job to running.

    Return None if another attempt has the job or it has ended.
    """
    with transaction.atomic():
        first = stage == 1
        if not (move(job, to=Status.RUNNING, build=build, started_at=Now()) if first else _lock_row(job)):
            return None
        return Run.objects.create(job=job, attempt=job.attempt, stage=stage, build=build, started_at=Now())


def _lock_row(job: Job) -> bool:
    """Lock the job's row for the transaction. Return False if another attempt has the job or it has ended."""
    row = Job.objects.select_for_update(no_key=True).filter(pk=job.pk, attempt=job.attempt, status__in=CLAIMED)
    return row.values_list("pk").first() is not None


def requeue(job: Job, *, reason: str, guard: Q = ANY) -> MoveResult:
    """Return a job to its original place in the queue, with a new queue deadline.

    If cancellation was requested, end the job instead.
    """
    deadline = Now() + timedelta(seconds=job.ceiling_queue_seconds)
    # Read before the transaction, so that a slow Redis does not prolong it.
    cancelled = replace(CANCELLED_LOST, percent=last_percent(job))
    with transaction.atomic():
        returned = move(
            job,
            to=Status.QUEUED,
            reason=reason,
            guard=guard & ~CANCEL_REQUESTED,
            queue_deadline_at=deadline,
            started_at=None,
            build=None,
            **RELEASED,
        ) or finish(job, cancelled, guard=guard & CANCEL_REQUESTED)
        if returned:
            end_lost_runs(job)
    return returned


def end_lost_runs(job: Job) -> None:
    """Mark the unfinished runs of the attempt as lost. Their duration is unknown."""
    lost = Run.objects.filter(job_id=job.pk, attempt=job.attempt, ended_at=None)
    lost.update(ended_at=Now(), stopped_for=StopReason.LOST)


def finish(job: Job, outcome: Outcome, *, guard: Q = ANY) -> MoveResult:
    """End the job, settle its credits, record its usage and write its webhook event, in one transaction.

    The instance is not changed, so the call can be repeated if the transaction fails.
    """
    reason = outcome.reason and outcome.reason[:500]
    percent = last_percent(job) if outcome.percent is None else outcome.percent
    with transaction.atomic():
        ended = move(
            copy(job),
            to=outcome.status,
            reason=reason or "",
            guard=guard,
            error_code=outcome.error_code,
            status_reason=reason,
            simulator_exit_code=outcome.exit_code,
            sim_duration_ms=outcome.sim_duration_ms,
            credits_consumed=outcome.credits_consumed,
            summary=outcome.summary,
            character=job.character or _character_in(outcome.summary),
            missing_artifacts=list(outcome.missing_artifacts),
            percent=percent,
            completed_at=Now(),
            **RELEASED,
        )
        if ended:
            ledger.settle(job.pk, spent=outcome.credits_consumed)
            usage.record(job)
            webhook_events.record_end(job, status=outcome.status, reason=reason, error_code=outcome.error_code)
            if job.has_credentials:
                transaction.on_commit(partial(credentials.forget, job.pk))
    return ended


def _character_in(summary: Mapping[str, Any] | None) -> str:
    """Return the name of the main actor in a summary, or an empty text."""
    actor = (summary or {}).get("mainActor") or {}
    return str(actor.get("name", ""))[:CHARACTER_LENGTH]
