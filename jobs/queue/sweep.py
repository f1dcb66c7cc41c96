"""The sweep: periodic recovery from crashes, lost messages and expired waits.

Each part works in bounded batches and with guarded moves, so two sweeps at once are safe.
"""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from redis.exceptions import RedisError

from billing.errors import HoldError
from jobs.artifacts import credentials
from jobs.enums import ACTIVE, CLAIMED, WAITING, ErrorCode, MoveResult, ReturnCause, Status
from jobs.lifecycle import job_moves, shard_moves, transitions
from jobs.lifecycle.job_moves import Outcome
from jobs.models import CLAIMABLE, Build, Job, JobEvent, Run
from jobs.queue import announcements, forecast
from simservice import worker_heartbeats
from simservice.clocks import agrees_with, database_time, seconds_ahead_of
from simservice.ids import first_id_of
from simservice.postgresql.statements import load, run
from simservice.telemetry.logs import log_ids

logger = logging.getLogger(__name__)

SUBMITTED_WITHIN = timedelta(minutes=1)

# A larger difference between this process's clock and PostgreSQL's means that one of them jumped.
MAX_CLOCK_SECONDS = 60.0

SQL = load(__file__, transitions.GROUPS, {"lease_end": job_moves.SQL["lease_end"]})


def sweep() -> dict[str, int]:
    """Run one sweep. Return how many jobs or sharded stages each part handled.

    Without an unfinished job or a sharded stage, no part has anything to do, and the sweep costs one short query.
    """
    state = idle_state()
    worker_heartbeats.publish_drained(state.drained)
    if state.is_idle:
        forecast.publish_idle(latest_run=state.latest_run, paused=state.paused)
        return {}
    done = {
        "shortened_leases": shorten_leases(),
        "recovered": recover_expired_leases(),
        "timed_out": end_overdue_waits(),
        "removed_stages": shard_moves.remove_void_stages(),
    }
    try:
        done |= {"announced": announcements.announce_pending(), "woken": announcements.replenish()}
    except RedisError:
        logger.warning("the sweep announced no jobs: Redis does not respond")
    forecast.publish(paused=state.paused)
    return done


class SweepState(NamedTuple):
    """What a sweep reads first: whether no job is unfinished and no sharded stage left.

    `latest_run` is the id of the run that ended last, None if none did.
    """

    is_idle: bool
    latest_run: int | None
    paused: list[int]
    drained: list[str]


def idle_state() -> SweepState:
    """Read what a sweep needs first. One query."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["idle_state"])
        return SweepState(*cursor.fetchone())


def shorten_leases() -> int:
    """Shorten leases that PostgreSQL's clock made too long when it was set back. Return how many. One statement."""
    ((shortened,),) = run(SQL["shorten_leases"], values={"lease_seconds": settings.LEASE_SECONDS})
    return int(shortened)


def recover_expired_leases() -> int:
    """Requeue jobs with an expired lease, or end them if no attempts are left. Return how many were changed."""
    expired = Job.objects.filter(job_moves.LEASE_EXPIRED, status__in=CLAIMED)
    return sum(_is_done(recover, job) for job in _unlocked_batch(expired.order_by("id")))


def _is_done(move: Callable[[Job], MoveResult], job: Job) -> bool:
    """Move a job and return whether it was moved. A job with an invalid hold must not stop the sweep."""
    with log_ids(**job.log_ids):
        try:
            return bool(move(job))
        except HoldError:
            logger.exception("job %s cannot be ended", job.pk)
            return False


def _unlocked_batch(jobs: QuerySet[Job]) -> list[Job]:
    """Return a batch of jobs whose rows are not locked, so that a paused transaction does not block the sweep.

    Only for jobs that cannot be claimed: a claim skips the rows that this locks for a moment.
    """
    with transaction.atomic():
        return list(jobs.select_for_update(skip_locked=True)[: announcements.SWEEP_BATCH])


def recover(job: Job, *, reason: str = "", guard: Q = job_moves.LEASE_EXPIRED) -> MoveResult:
    """Retry a lost job, or end it if no attempts are left: `docs/reference/api.md#automatic-retries`.

    `guard` is the condition under which the job is lost. The default reason is an expired lease.
    """
    if job.cancel_requested_at or lost_attempts(job) < settings.MAX_ATTEMPTS:
        reason = reason or f"{job.worker} stopped renewing its lease"
        return job_moves.requeue(job, reason=reason, cause=ReturnCause.LOST, guard=guard)
    return job_moves.finish(job, interrupted(job), guard=guard)


def lost_attempts(job: Job) -> int:
    """Return how many attempts were lost, the current one included.

    An attempt that was returned, for example by a worker that stops, is no loss, nor is one that ran a shard whose
    result is kept.
    """
    if job.attempt < settings.MAX_ATTEMPTS:
        return job.attempt
    returned = JobEvent.objects.filter(job=job, cause=ReturnCause.RETURNED).values_list("attempt", flat=True)
    return job.attempt - len({*returned} | shard_moves.productive_attempts(job))


def interrupted(job: Job) -> Outcome:
    """Return the outcome of a job whose attempts were all lost. Nothing is billed."""
    return Outcome(
        status=Status.FAILED,
        error_code=ErrorCode.EXECUTION_INTERRUPTED,
        reason=f"The job was interrupted and did not finish after {job.attempt} "
        f"attempt{'' if job.attempt == 1 else 's'}. Nothing is billed; it is safe to submit it again.",
    )


def forget_credentials() -> int:
    """Delete the game credentials of jobs that ended or were never stored. Return the number of these jobs.

    The process that ends a job deletes them too, but it may die first, or Redis may not respond. Raises RedisError.
    """
    # The request that submits a younger job may not have stored it yet.
    recent = first_id_of(database_time() - SUBMITTED_WITHIN)
    old = {job_id for job_id in credentials.stored_job_ids() if job_id < recent}
    unfinished = set(Job.objects.filter(pk__in=old, status__in=ACTIVE).values_list("id", flat=True))
    for job_id in old - unfinished:
        credentials.forget(job_id)
    return len(old - unfinished)


def end_overdue_waits() -> int:
    """End jobs that waited longer than their queue limit, for up to `SWEEP_SECONDS`. Return how many were ended.

    Every claim skips the overdue jobs at the front of the queue, so the sweep ends as many as it can, not one
    batch. If PostgreSQL's clock jumped ahead, the jobs wait until it is right again.
    """
    overdue = Job.objects.filter(status__in=WAITING, queue_deadline_at__lt=Now()).order_by("queue_deadline_at")
    if overdue.exists() and abs(ahead := seconds_ahead_of(database_time)) > MAX_CLOCK_SECONDS:
        agrees_with("PostgreSQL", ahead=ahead)
        return 0
    return _end_all(overdue, lambda job: job_moves.finish(job, _overdue_outcome(job)))


def end_waits_without_build() -> int:
    """End waiting jobs on branches without any available build, so that they do not wait for a slot.

    A job whose build is only missing on some machines keeps waiting. Return how many were ended.
    """
    builds = Build.objects.filter(withdrawn_at=None).order_by()
    available = set(builds.values_list("git_branch", flat=True).distinct())
    if available.issuperset(settings.GIT_BRANCHES):
        return 0
    hopeless = Job.objects.filter(CLAIMABLE).exclude(git_branch__in=available).order_by("priority", "id")
    return _end_all(hopeless, lambda job: job_moves.finish(job, job_moves.BUILD_UNAVAILABLE))


def _end_all(jobs: QuerySet[Job], end: Callable[[Job], MoveResult]) -> int:
    """End jobs in batches, for up to `SWEEP_SECONDS`. Return how many were ended."""
    until, ended = time.monotonic() + settings.SWEEP_SECONDS, 0
    while batch := _unlocked_batch(jobs):
        ended += sum(_is_done(end, job) for job in batch)
        if len(batch) < announcements.SWEEP_BATCH or time.monotonic() > until:
            break
    return ended


def _overdue_outcome(job: Job) -> Outcome:
    """Return the outcome of an overdue job: a queue timeout, or an interruption if an attempt ran before.

    A job that was paused ends with a queue timeout even if it ran before.
    """
    if job.is_paused:
        return Outcome(
            status=Status.FAILED,
            error_code=ErrorCode.QUEUE_TIMEOUT,
            reason=f"The job was paused for longer than its queue limit of {job.ceiling_queue_seconds:,} s. "
            "Nothing is billed; it is safe to submit it again.",
        )
    if job.attempt and Run.objects.filter(job=job).exists():
        return interrupted(job)
    return Outcome(
        status=Status.FAILED,
        error_code=ErrorCode.QUEUE_TIMEOUT,
        reason=f"The job did not start within its queue limit of {job.ceiling_queue_seconds:,} s. "
        "Nothing is billed; it is safe to submit it again.",
    )
