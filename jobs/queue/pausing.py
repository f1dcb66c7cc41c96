"""Pause and resume of jobs: `docs/reference/api.md#pause-and-resume-a-job`.

A waiting job is paused at once. For a claimed job, the request is stored in the database and hinted at in Redis,
like a request to cancel it. Its worker then returns the job to the queue, which pauses it in the same transaction.
"""

from django.db import transaction

from billing import ledger, prices
from billing.errors import InsufficientCredits
from clients import audit
from clients.audit import Action, Actor
from jobs.artifacts import credentials
from jobs.enums import CLAIMED, WAITING, ReturnCause
from jobs.errors import AccountSuspended, CreditsMissing, JobNotPausable, PauseLimitReached
from jobs.lifecycle import cancellation, job_moves
from jobs.models import SLICE_SECONDS, Job, JobEvent
from jobs.queue import announcements
from simservice.redis.client import best_effort

# Each pause adds rows to the job's history and, while the job runs, an attempt.
MAX_PAUSES = 20


def pause(job: Job, *, by: Actor) -> Job:
    """Pause a waiting job, or request the pause of a claimed one. Return its current state.

    The row is locked, so the job cannot be claimed, requeued or ended at the same time. A repeated call changes
    nothing. Raises JobNotPausable or PauseLimitReached.
    """
    with transaction.atomic():
        locked = _locked(job)
        if not locked.is_paused and locked.pause_requested_at is None:
            _require_pauses_left(locked)
            (job_moves.pause if locked.status in WAITING else job_moves.request_pause)(locked)
            _record(locked, Action.JOB_PAUSED, by=by)
            locked.refresh_from_db()
    if locked.is_paused:
        _keep_credentials(locked)
    else:
        cancellation.hint(locked)
    return locked


def resume(job: Job, *, by: Actor) -> Job:
    """Let a paused job be claimed again, or withdraw the request to pause a claimed one. Return its current state.

    Reserves credits as a submission does: the whole cap of a job with a cap, else a slice, or what the account has
    if that pays for a second. A repeated call changes nothing. Raises JobNotPausable, AccountSuspended or
    CreditsMissing.
    """
    with transaction.atomic():
        locked = _locked(job)
        was_paused = locked.is_paused
        if was_paused:
            if locked.account.suspended_at is not None:
                raise AccountSuspended
            job_moves.resume(locked)
            _reserve(locked)
        elif locked.pause_requested_at is not None:
            job_moves.withdraw_pause(locked)
        else:
            return locked
        _record(locked, Action.JOB_RESUMED, by=by)
        locked.refresh_from_db()
    if was_paused:
        _keep_credentials(locked)
        best_effort(lambda: announcements.wake_one(locked.priority), default=None)
    return locked


def _locked(job: Job) -> Job:
    """Return a job with its row locked for the transaction. Raises JobNotPausable."""
    locked = Job.objects.select_for_update(no_key=True).get(pk=job.pk)
    if locked.is_terminal or (locked.status in CLAIMED and locked.cancel_requested_at is not None):
        raise JobNotPausable(job_id=locked.pk, status=locked.public_status)
    return locked


def _require_pauses_left(job: Job) -> None:
    """Raise PauseLimitReached if the job has reached the maximum number of pauses."""
    if JobEvent.objects.filter(job=job, cause=ReturnCause.PAUSED).count() >= MAX_PAUSES:
        raise PauseLimitReached(limit=MAX_PAUSES)


def _reserve(job: Job) -> None:
    """Reserve credits for the next attempt of a job. Raises CreditsMissing."""
    rate, held = job.credits_per_second, ledger.held(job.pk)
    missing = job.ceiling_credits + job.priority_fee_credits - held
    is_capped = job.max_credits is not None
    wanted = missing if is_capped else min(SLICE_SECONDS * rate, missing)
    required = missing if is_capped else min(rate, missing)
    if wanted <= 0:
        return
    try:
        ledger.extend(job.pk, wanted)
    except InsufficientCredits as shortage:
        if shortage.available_credits < required:
            raise _credits_missing(job, required=required, available=shortage.available_credits) from None
        # The balance is still locked, so these are available.
        ledger.extend(job.pk, shortage.available_credits)


def _credits_missing(job: Job, *, required: int, available: int) -> CreditsMissing:
    return CreditsMissing(
        required_credits=required,
        ceiling_credits=job.ceiling_credits,
        affordable_credits=available,
        ceiling_seconds=job.ceiling_runtime_seconds,
        affordable_seconds=prices.seconds_for(available, credits_per_second=job.credits_per_second),
        fee_credits=None,
    )


def _keep_credentials(job: Job) -> None:
    """Keep a job's game credentials for as long as it can wait and run from now on."""
    if job.has_credentials:
        credentials.keep(job.pk, seconds=job.ceiling_queue_seconds + job.ceiling_runtime_seconds)


def _record(job: Job, action: Action, *, by: Actor) -> None:
    """Write an audit event, unless the API key that submitted the job changes it."""
    if by.key_id is None or by.key_id != job.api_key_id:
        audit.record(job.account_id, action, by=by, target_id=job.pk, target=job)
