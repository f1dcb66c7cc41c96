"""The sweep: what makes good whatever a crash, a lost message or the passing of time left behind.

Each part works in bounded batches through guarded moves, so two sweeps at once do no harm.
"""

import logging
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from jobs import credentials, lifecycle
from jobs.enums import ACTIVE, HELD, WAITING, ErrorCode, MoveResult, Status
from jobs.lifecycle import Outcome
from jobs.models import Job
from jobs.queueing import announcements, forecast
from simservice.ids import first_id_of

logger = logging.getLogger(__name__)

SUBMITTED_WITHIN = timedelta(minutes=1)


def sweep() -> dict[str, int]:
    """Do one round and return how many jobs each part touched."""
    done = {"recovered": recover_expired_leases(), "timed_out": end_overdue_waits()}
    try:
        done |= {"announced": announcements.announce_pending(), "hinted": announcements.replenish_hints()}
    except (OperationalError, RedisError):
        logger.warning("nothing announced: the broker does not answer")
    forecast.publish()
    return done


def recover_expired_leases() -> int:
    """Put jobs whose worker stopped renewing its lease back into the queue, or end them when attempts are spent."""
    expired = Job.objects.filter(lifecycle.LEASE_EXPIRED, status__in=HELD)
    return sum(bool(recover(job)) for job in unlocked(expired.order_by("id")))


def unlocked(jobs: QuerySet[Job]) -> list[Job]:
    """Return a batch of jobs whose rows nobody has locked at this moment.

    Whoever stands still within a transaction must not hold up the sweep of all other jobs. For jobs that no claim
    looks at: it would pass over them meanwhile.
    """
    with transaction.atomic():
        return list(jobs.select_for_update(skip_locked=True)[: announcements.SWEEP_BATCH])


def recover(job: Job) -> MoveResult:
    """Retry a lost job, or end it if no attempts are left: `docs/reference/contract.md#automatic-retries`."""
    if job.attempt < settings.MAX_ATTEMPTS or job.cancel_requested_at:
        reason = f"{job.worker} stopped renewing its lease"
        return lifecycle.hand_back(job, reason=reason, guard=lifecycle.LEASE_EXPIRED)
    with transaction.atomic():
        ended = lifecycle.finish(job, interrupted(job), guard=lifecycle.LEASE_EXPIRED)
        if ended:
            lifecycle.end_lost_runs(job)
    return ended


def interrupted(job: Job) -> Outcome:
    """Return the end of a job that the platform lost once too often. Nothing is billed."""
    return Outcome(
        status=Status.FAILED,
        error_code=ErrorCode.EXECUTION_INTERRUPTED,
        reason=f"The job was interrupted and did not finish after {job.attempt} "
        f"attempt{'' if job.attempt == 1 else 's'}. Nothing is billed; it is safe to submit it again.",
    )


def forget_credentials() -> int:
    """Forget the game credentials of jobs that ended or were never stored; return how many jobs those were.

    Whoever ends a job forgets them at once, unless it dies just then or Redis does not answer. Raises RedisError.
    """
    # A younger job may still be in the hands of the request that submits it.
    recent = first_id_of(timezone.now() - SUBMITTED_WITHIN)
    old = [job_id for job_id in credentials.kept() if job_id < recent]
    unfinished = set(Job.objects.filter(pk__in=old, status__in=ACTIVE).values_list("id", flat=True))
    for job_id in set(old) - unfinished:
        credentials.forget(job_id)
    return len(set(old) - unfinished)


def end_overdue_waits() -> int:
    """End jobs that waited longer than their queue ceiling."""
    overdue = Job.objects.filter(status__in=WAITING, queue_deadline_at__lt=Now()).order_by("queue_deadline_at")
    return sum(bool(lifecycle.finish(job, overdue_end(job))) for job in unlocked(overdue))


def overdue_end(job: Job) -> Outcome:
    """Return the end of a job whose wait ran out: a queue timeout, unless an attempt had already been lost."""
    if job.attempt:
        return interrupted(job)
    return Outcome(
        status=Status.FAILED,
        error_code=ErrorCode.QUEUE_TIMEOUT,
        reason=f"The job did not start within its queue limit of {job.ceiling_queue_seconds:,} s. "
        "Nothing is billed; it is safe to submit it again.",
    )
