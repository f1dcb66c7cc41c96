"""What operators may do to a job beside cancelling it, by the same doors as everything else that moves jobs."""

from django.db import transaction

from clients import audit
from clients.audit import Action, Actor
from jobs import lifecycle
from jobs.enums import ACTIVE, HELD, ErrorCode, MoveResult, Status
from jobs.lifecycle import Outcome
from jobs.models import Job

TAKEN_BACK = "an operator put the job back into the queue"
RELEASED = Outcome(
    status=Status.FAILED,
    error_code=ErrorCode.EXECUTION_INTERRUPTED,
    reason="An operator ended the job. Nothing is billed. You can submit it again.",
)


def requeue(job: Job, *, by: Actor) -> MoveResult:
    """Take a job from its worker and return it to its place in the queue. TAKEN if no worker has it.

    The worker notices with its next renewal of the lease and stops its simulator. A job whose cancel was asked for
    is cancelled instead.
    """
    found = Job.objects.get(pk=job.pk)
    if found.status not in HELD:
        return MoveResult.TAKEN
    with transaction.atomic():
        result = lifecycle.hand_back(found, reason=TAKEN_BACK)
        if result:
            audit.record(job.account_id, Action.JOB_REQUEUED, by=by, target_id=job.pk, target=job)
    return result


def release(job: Job, *, by: Actor) -> MoveResult:
    """End an unfinished job as lost by the platform, and release its reservation. TAKEN if it has ended."""
    found = Job.objects.get(pk=job.pk)
    if found.status not in ACTIVE:
        return MoveResult.TAKEN
    with transaction.atomic():
        result = lifecycle.finish(found, RELEASED)
        if result:
            lifecycle.end_lost_runs(found)
            audit.record(job.account_id, Action.JOB_RELEASED, by=by, target_id=job.pk, target=job)
    return result
