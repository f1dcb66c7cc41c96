"""Acceptance of a submission: its checks, the transaction that stores the job, and the announcement."""

import logging
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from django.db import transaction
from django.utils import timezone

from billing import prices
from jobs import api_mode, registry
from jobs.artifacts import credentials
from jobs.enums import Priority, Status
from jobs.errors import AccountSuspended, ActiveJobLimitReached, CreditsMissing, JobsError, StorageLimitReached
from jobs.lifecycle import counters
from jobs.models import CHARACTER_LENGTH, MIN_AHEAD_SECONDS, SLICE_SECONDS, Build, Job
from jobs.planning import estimates, multistage
from jobs.planning.input_text import bounds
from jobs.queue import announcements, forecast
from jobs.submission import priority_fee, validation
from jobs.submission.request import Submission
from jobs.submission.store import KeyRecord, Rule, StoreResult, check_limits, lock, store
from jobs.submission.validation import CheckedSubmission, Sender
from jobs.submission.warnings import warnings_of
from simc.profiles.analysis import Analysis
from simservice.ids import new_token, next_id
from simservice.postgresql.connections import DATABASE_UNAVAILABLE
from simservice.telemetry import tracing

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A new job, with the warnings and the deprecated fields of its request.

    `active_jobs` is the number of the account's unfinished jobs, including this job. It is 0 until the job is
    stored.
    """

    job: Job
    warnings: list[dict[str, Any]]
    deprecated_fields: list[str]
    active_jobs: int = 0


@dataclass(frozen=True)
class Replay:
    """The response that an earlier, equal request received."""

    response: str


class SubmitOnce(Protocol):
    """A rule that keeps one request from creating two jobs."""

    def find_replay(self) -> Replay | None:
        """Return the response of an earlier, equal request, None for a new request."""

    def storing(self) -> AbstractContextManager[None]:
        """Return the context manager in which the job is stored. It raises a JobsError if the job is refused."""

    def record(self, accepted: Accepted) -> KeyRecord | None:
        """Return the idempotency key to store with the job, or None."""


def submit(
    submission: Submission, *, sender: Sender, once: SubmitOnce, analysis: Analysis | None = None
) -> Accepted | Replay:
    """Store a job and announce it to the workers, or return the response to an earlier, equal request.

    `analysis` is that of the profile if it is known already. Raises an error of `jobs.errors` or of `once`; in that
    case, nothing is stored.
    """
    if replay := once.find_replay():
        return replay
    checked = check(submission, sender=sender, analysis=analysis)
    # Before the transaction, so that its queries do not prolong it
    wanted_credits = _wanted_credits(checked)
    job_id = next_id()
    with _credentials_stored(checked, job_id=job_id):
        outcome = _store(checked, once, job_id=job_id, wanted_credits=wanted_credits)
    if isinstance(outcome, Replay):
        _forget_credentials(checked, job_id=job_id)
    else:
        counters.record_submission(outcome.job)
        _announce(outcome.job)
    return outcome


def check(submission: Submission, *, sender: Sender, analysis: Analysis | None = None) -> CheckedSubmission:
    """Make the checks that need no lock, in order. `analysis` is that of the profile if it is known already.

    Raises an error of `jobs.errors`.
    """
    forecast.require_open_queue()
    return validation.check(submission, sender=sender, analysis=analysis)


def require_storable(checked: CheckedSubmission, *, fee_credits: int) -> None:
    """Raise the error with which `submit` would refuse a checked submission now. Stores and locks nothing.

    One query, and one request to Redis if the job has game credentials.
    """
    if checked.submission.credentials is not None:
        credentials.require_store()
    required = fee_credits + _required_credits(checked)
    result = check_limits(checked.sender.client.account_id, required=required, plan=checked.plan)
    if result.broken_rule:
        raise _refusal(result, checked, fee_credits=fee_credits)


def _announce(job: Job) -> None:
    """Announce a stored job. If the database does not respond, the sweep announces it.

    The job is accepted at this point, so an error here must not make the caller submit it again.
    """
    try:
        announcements.announce(job)
    except DATABASE_UNAVAILABLE:
        logger.warning("job %s not announced: the database does not respond", job.pk, exc_info=True)


@contextmanager
def _credentials_stored(checked: CheckedSubmission, *, job_id: int) -> Iterator[None]:
    """Store the job's credentials before the block stores the job. Delete them if the block raises a JobsError.

    The transaction does not include Redis. Storing the credentials first ensures that no job lacks them.
    """
    ceilings, given = checked.ceilings, checked.submission.credentials
    if given is not None:
        credentials.store(job_id, given, seconds=ceilings.queue_seconds + ceilings.runtime_seconds)
    try:
        yield
    except JobsError:
        _forget_credentials(checked, job_id=job_id)
        raise


def _forget_credentials(checked: CheckedSubmission, *, job_id: int) -> None:
    if checked.submission.credentials is not None:
        credentials.forget(job_id)


def _store(checked: CheckedSubmission, once: SubmitOnce, *, job_id: int, wanted_credits: int) -> Accepted | Replay:
    """Store the job and the record of its request, unless an equal request created one in the meantime.

    Raises ActiveJobLimitReached, AccountSuspended, StorageLimitReached or CreditsMissing.
    """
    warnings = _warnings(checked)
    with once.storing(), _fee_decided(checked) as fee_credits:
        job = _new_job(checked, job_id=job_id, fee_credits=fee_credits)
        accepted = Accepted(job=job, warnings=warnings, deprecated_fields=deprecated_fields(checked.submission))
        result = store(
            job,
            profile_text=checked.submission.profile_text,
            wanted=fee_credits + wanted_credits,
            required=fee_credits + _required_credits(checked),
            plan=checked.plan,
            record=once.record(accepted),
        )
        if result.broken_rule is None:
            return replace(accepted, active_jobs=result.active + 1)
        if result.broken_rule is not Rule.REPEATED:
            raise _refusal(result, checked, fee_credits=fee_credits)
    # A simultaneous equal request was first. Its job may have been deleted in the meantime.
    return once.find_replay() or _store(checked, once, job_id=job_id, wanted_credits=wanted_credits)


def _warnings(checked: CheckedSubmission) -> list[dict[str, Any]]:
    """Return the warnings of a submission. One query if it asks for an HTML report on no pinned build."""
    build = _build_of(checked) if checked.submission.html else checked.pin
    return warnings_of(checked.submission, checked.analysis, build=build)


def _build_of(checked: CheckedSubmission) -> Build | None:
    """Return the build that would run the job now, or None. One query unless it is pinned."""
    submission = checked.submission
    return checked.pin or registry.for_channel(submission.channel, submission.git_branch, now=timezone.now())


def _refusal(result: StoreResult, checked: CheckedSubmission, *, fee_credits: int) -> JobsError:
    """Return the error of the rule that a job broke."""
    plan, ceilings = checked.plan, checked.ceilings
    if result.broken_rule is Rule.ACTIVE_JOBS:
        return ActiveJobLimitReached(active=result.active, limit=plan.max_active_jobs)
    if result.broken_rule is Rule.SUSPENDED:
        return AccountSuspended()
    if result.broken_rule is Rule.STORED_BYTES:
        return StorageLimitReached(stored_bytes=result.stored_bytes, limit=plan.max_stored_bytes or 0)
    affordable = min(max(0, result.available_credits - fee_credits), plan.max_credits_per_job)
    return CreditsMissing(
        required_credits=fee_credits + _required_credits(checked),
        ceiling_credits=ceilings.credits,
        affordable_credits=affordable,
        ceiling_seconds=ceilings.runtime_seconds,
        affordable_seconds=prices.seconds_for(affordable, credits_per_second=plan.credits_per_second),
        fee_credits=fee_credits if checked.submission.priority == Priority.HIGH else None,
    )


def deprecated_fields(submission: Submission) -> list[str]:
    """Return the deprecated fields of the request."""
    deprecated = api_mode.current().deprecated_cap_field
    caps = {"maxCredits": submission.max_credits, "maxRuntimeSeconds": submission.max_runtime_seconds}
    return [f"runtime.{deprecated}"] if deprecated and caps[deprecated] is not None else []


@contextmanager
def _fee_decided(checked: CheckedSubmission) -> Iterator[int]:
    """Run the block with the priority fee of the job, 0 if none is due.

    A `high` job is stored in the transaction that decides its fee, under the account's lock, so that the account's
    simultaneous submissions are counted.
    """
    if checked.submission.priority != Priority.HIGH:
        yield 0
        return
    with transaction.atomic():
        lock(checked.sender.client.account_id)
        yield fee_now(checked)


def fee_now(checked: CheckedSubmission) -> int:
    """Return the priority fee of a job submitted now, 0 if none is due. At most two queries."""
    if checked.submission.priority != Priority.HIGH:
        return 0
    is_due = priority_fee.buys_earlier_start(live_slots=checked.live_slots or 0)
    return checked.plan.high_priority_fee_credits if is_due else 0


def _required_credits(checked: CheckedSubmission) -> int:
    """Return the credits that a submission must reserve, without the fee: its cap, or the price of a second."""
    ceilings = checked.ceilings
    return ceilings.credits if ceilings.reserved_in_full else min(checked.plan.credits_per_second, ceilings.credits)


def _wanted_credits(checked: CheckedSubmission) -> int:
    """Return the credits that a submission reserves if the account has them, without the fee.

    They are its cap if it is reserved in full. Otherwise, they are the price of a slice or, with a cap in seconds,
    of the longest expected run, with so much more that it is not extended. At most three queries.
    """
    ceilings = checked.ceilings
    if ceilings.reserved_in_full:
        return ceilings.credits
    expected = _longest_expected_seconds(checked) if ceilings.capped else None
    seconds = SLICE_SECONDS if expected is None else expected + MIN_AHEAD_SECONDS
    return min(seconds * checked.plan.credits_per_second, ceilings.credits)


def _longest_expected_seconds(checked: CheckedSubmission) -> int | None:
    """Return the high end of the estimated simulator time, None without an estimate. At most three queries."""
    build, submission, analysis = _build_of(checked), checked.submission, checked.analysis
    if build is None:
        return None
    stages = multistage.plan(analysis, wanted=submission.multi_stage, bounds=bounds())
    estimate = estimates.estimate(checked.sender.client.account, build, analysis, stages)
    return math.ceil(estimate.seconds.high) if estimate else None


def _new_job(checked: CheckedSubmission, *, job_id: int, fee_credits: int) -> Job:
    """Return the job of a submission, not stored yet."""
    submission, sender, ceilings = checked.submission, checked.sender, checked.ceilings
    return Job(
        id=job_id,
        account=sender.client.account,
        client=sender.client,
        api_key=sender.key,
        priority=submission.priority,
        channel=submission.channel,
        git_branch=submission.git_branch,
        pinned_build=checked.pin,
        multi_stage=submission.multi_stage,
        html=submission.html,
        csv=submission.csv,
        has_credentials=submission.credentials is not None,
        wants_webhook=bool(submission.webhook_events),
        json_version=submission.json_version,
        metadata=dict(submission.metadata),
        character=(checked.analysis.main_actor or "")[:CHARACTER_LENGTH],
        other_characters=max(0, checked.analysis.actors + checked.analysis.copies - 1),
        max_credits=ceilings.credits if ceilings.capped else None,
        ceiling_credits=ceilings.credits,
        ceiling_runtime_seconds=ceilings.runtime_seconds,
        ceiling_queue_seconds=ceilings.queue_seconds,
        priority_fee_credits=fee_credits,
        credits_per_second=checked.plan.credits_per_second,
        vcpus=checked.plan.vcpu_per_job,
        parallel_slots=checked.plan.max_parallel_slots,
        retention_days=checked.plan.retention_days,
        status=Status.PENDING,
        share_token=new_token(),
        shares_inputs=not submission.hides_inputs,
        trace_parent=tracing.current_parent(),
    )
