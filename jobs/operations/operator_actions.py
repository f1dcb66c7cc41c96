"""Actions on jobs for operators in the admin."""

from dataclasses import replace

from django.db import transaction

from clients import audit
from clients.audit import Action, Actor
from jobs.enums import ACTIVE, CLAIMED, ErrorCode, MoveResult, ReturnCause, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.live.progress import last_percent
from jobs.models import Job

REQUEUED = "requeued by an operator"
RELEASED = Outcome(
    status=Status.FAILED,
    error_code=ErrorCode.EXECUTION_INTERRUPTED,
    reason="An operator ended the job. Nothing is billed. You can submit it again.",
)


def may_requeue(job: Job) -> bool:
    """Return whether a worker has the job."""
    return job.status in CLAIMED


def may_release(job: Job) -> bool:
    """Return whether the job has not ended."""
    return job.status in ACTIVE


def requeue(job: Job, *, by: Actor) -> MoveResult:
    """Return a claimed job to its place in the queue.

    Return GUARD_FAILED if no worker has it, and TAKEN if another attempt has begun. The job's worker notices
    at the next renewal of the lease and stops the simulator. If cancellation was requested, the job is cancelled
    instead.
    """
    current = Job.objects.get(pk=job.pk)
    if current.attempt != job.attempt:
        return MoveResult.TAKEN
    if not may_requeue(current):
        return MoveResult.GUARD_FAILED
    with transaction.atomic():
        result = job_moves.requeue(current, reason=REQUEUED, cause=ReturnCause.RETURNED)
        if result:
            audit.record(job.account_id, Action.JOB_REQUEUED, by=by, target_id=job.pk, target=job)
    return result


def release(job: Job, *, by: Actor) -> MoveResult:
    """End an unfinished job as interrupted, and release its reserved credits.

    Return GUARD_FAILED if it has ended, and TAKEN if another attempt has begun.
    """
    current = Job.objects.get(pk=job.pk)
    if current.attempt != job.attempt:
        return MoveResult.TAKEN
    if not may_release(current):
        return MoveResult.GUARD_FAILED
    # Read Redis before the transaction, so that a slow Redis does not prolong it.
    outcome = replace(RELEASED, percent=last_percent(current))
    with transaction.atomic():
        result = job_moves.finish(current, outcome)
        if result:
            audit.record(job.account_id, Action.JOB_RELEASED, by=by, target_id=job.pk, target=job)
    return result
