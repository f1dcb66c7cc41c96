"""Cancellation of jobs: `docs/reference/contract.md#cancel-a-job`.

A waiting job ends at once. One that a worker holds is marked in the database, where the worker finds the mark with
its next renewal of the lease, and hinted at in Redis, where it finds the hint within a second or two.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from clients import audit
from clients.audit import Action, Actor
from jobs import lifecycle
from jobs.enums import HELD, WAITING, Status
from jobs.errors import JobAlreadyEnded
from jobs.models import Job
from simservice.redis.client import best_effort, redis

# By then the lease has been renewed many times over.
HINTED_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Cancellation:
    """What a cancel did: `requested_at` is None when it ended a job that had not started."""

    job_id: int
    requested_at: datetime | None


def cancel(job: Job, *, by: Actor) -> Cancellation:
    """End a waiting job, or have a running one stopped; a repeated call answers as the first did.

    The row is locked while it is decided, so claims, ends and hand-backs come before or after. Raises
    JobAlreadyEnded when the job has ended in another way.
    """
    with transaction.atomic():
        found = Job.objects.select_for_update().get(pk=job.pk)
        if found.status in WAITING:
            lifecycle.finish(found, lifecycle.CANCELLED)
            record(found, by=by)
        elif found.status in HELD:
            if found.cancel_requested_at is None:
                record(found, by=by)
            lifecycle.request_cancel(found)
            found.refresh_from_db(fields=["cancel_requested_at"])
        elif found.status != Status.CANCELLED:
            raise JobAlreadyEnded(job_id=found.pk, status=found.public_status)
    if found.status in HELD:
        hint(found)
    return Cancellation(job_id=found.pk, requested_at=found.cancel_requested_at)


def record(job: Job, *, by: Actor) -> None:
    """Write an audit event unless the job is cancelled by the API key that submitted it.

    A job does not record which user submitted it on the dashboard, so every cancellation by a user is written.
    """
    if by.key_id is None or by.key_id != job.api_key_id:
        audit.record(job.account_id, Action.JOB_CANCELLED, by=by, target_id=job.pk, target=job)


def hint(job: Job) -> None:
    """Tell the worker that holds the job to look into the database."""
    best_effort(lambda: redis().set(key_of(job), 1, ex=HINTED_SECONDS), default=None)


def is_hinted(job: Job) -> bool:
    """Tell whether Redis knows of a cancel; False when it does not answer."""
    return bool(best_effort(lambda: redis().exists(key_of(job)), default=0))


def key_of(job: Job) -> str:
    """Return the Redis key of the hint."""
    return f"cancel:{job.pk}"
