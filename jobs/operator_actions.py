"""What operators may do to a job beside cancelling it, by the same doors as everything else that moves jobs."""

from django.db import transaction

from clients import audit
from clients.audit import Action, Actor
from jobs import lifecycle
from jobs.enums import ACTIVE, HELD, ErrorCode, Status
from jobs.lifecycle import Outcome
from jobs.models import Job

TAKEN_BACK = "an operator put the job back into the queue"
RELEASED = Outcome(
    status=Status.FAILED,
    error_code=ErrorCode.EXECUTION_INTERRUPTED,
    reason="The job was ended by the platform's operators. Nothing is billed; it is safe to submit the job again.",
)


def requeue(job: Job, *, by: Actor) -> bool:
    """Take a job from the worker that holds it, back to its place in the queue; False when no worker holds it.

    The worker notices with its next renewal of the lease and stops its simulator. A job whose cancel was asked for
    is cancelled instead.
    """
    found = Job.objects.get(pk=job.pk)
    with transaction.atomic():
        returned = found.status in HELD and lifecycle.hand_back(found, reason=TAKEN_BACK)
        if returned:
            audit.record(job.account_id, Action.JOB_REQUEUED, by=by, target_id=job.pk, target=job)
    return returned


def release(job: Job, *, by: Actor) -> bool:
    """End a job that has not ended, as lost by the platform: all that was reserved for it is given back.

    False when it has ended, or somebody else moved it just then.
    """
    found = Job.objects.get(pk=job.pk)
    if found.status not in ACTIVE:
        return False
    with transaction.atomic():
        ended = lifecycle.finish(found, RELEASED)
        if ended:
            lifecycle.end_lost_runs(found)
            audit.record(job.account_id, Action.JOB_RELEASED, by=by, target_id=job.pk, target=job)
    return ended
