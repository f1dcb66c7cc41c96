"""Cancellation of jobs: `docs/reference/api.md#cancel-a-job`.

A waiting job ends at once, and is billed the shards that earlier attempts finished. For a claimed job, the request
is stored in the database. The worker reads it when it renews its lease, or within about two seconds because of a
hint in Redis.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from billing import ledger, prices
from clients import audit
from clients.audit import Action, Actor
from jobs.enums import CLAIMED, WAITING, Status
from jobs.errors import JobAlreadyEnded
from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from simservice.redis.client import best_effort, redis

# Much longer than a lease
CANCEL_FLAG_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Cancellation:
    """The result of a cancellation. `requested_at` is None once the job has ended."""

    job_id: int
    requested_at: datetime | None


def cancel(job: Job, *, by: Actor) -> Cancellation:
    """End a waiting job, or request the end of a claimed one. A repeated call changes nothing.

    The row is locked, so the job cannot be claimed, requeued or ended at the same time. Raises JobAlreadyEnded if
    the job ended in another way.
    """
    with transaction.atomic():
        locked = Job.objects.select_for_update().get(pk=job.pk)
        if locked.status in WAITING:
            job_moves.finish(locked, _end_of_waiting(locked))
            _record(locked, by=by)
        elif locked.status in CLAIMED:
            if locked.cancel_requested_at is None:
                _record(locked, by=by)
            job_moves.request_cancel(locked)
            locked.refresh_from_db(fields=["cancel_requested_at"])
        elif locked.status != Status.CANCELLED:
            raise JobAlreadyEnded(job_id=locked.pk, status=locked.public_status)
    if locked.status not in CLAIMED:
        return Cancellation(job_id=locked.pk, requested_at=None)
    hint(locked)
    return Cancellation(job_id=locked.pk, requested_at=locked.cancel_requested_at)


def _end_of_waiting(job: Job) -> Outcome:
    """Return the outcome of a cancelled waiting job. Its ended shards are billed, like those of a running job."""
    if not job.attempt:
        return job_moves.CANCELLED
    kept_ms = job_moves.kept_ms(job)
    if not kept_ms:
        return job_moves.CANCELLED_WAITING
    price = prices.of_time(kept_ms, credits_per_second=job.credits_per_second)
    return replace(
        job_moves.CANCELLED_WAITING,
        reason="The job was cancelled while it waited to run again. Only its finished shards are billed.",
        sim_duration_ms=kept_ms,
        slots_used=shard_moves.slots_used(job),
        credits_consumed=min(price + job.priority_fee_credits, ledger.held(job.pk)),
    )


def _record(job: Job, *, by: Actor) -> None:
    """Write an audit event, unless the API key that submitted the job cancels it.

    Jobs do not store which user submitted them on the dashboard, so every cancellation by a user is recorded.
    """
    if by.key_id is None or by.key_id != job.api_key_id:
        audit.record(job.account_id, Action.JOB_CANCELLED, by=by, target_id=job.pk, target=job)


def hint(job: Job) -> None:
    """Set the hint for the worker of the job."""
    best_effort(lambda: redis().set(_key_of(job), 1, ex=CANCEL_FLAG_SECONDS), default=None)


def is_hinted(job: Job) -> bool:
    """Return whether the hint is set; False if Redis does not respond."""
    return bool(best_effort(lambda: redis().exists(_key_of(job)), default=0))


def _key_of(job: Job) -> str:
    """Return the Redis key of the hint."""
    return f"cancel:{job.pk}"
