"""From a request to an accepted job, in one transaction."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from django.db import transaction
from django.db.models.functions import Now

from billing import ledger
from billing.models import Account, Plan
from clients.models import ApiKey, Client
from jobs import credentials, lifecycle, variants
from jobs.enums import ACTIVE, Priority, Status
from jobs.execution import budget
from jobs.models import CHARACTER_LENGTH, Build, Job, JobProfile
from jobs.profiles.analysis import Analysis, warnings
from jobs.queueing import announcements, forecast
from jobs.submission import idempotency, priority_fee, validation
from jobs.submission.request import Submission
from simservice.api.errors import (
    DATABASE_AWAY,
    ApiError,
    InactiveEntitlement,
    InsufficientCredits,
    MaxActiveJobsExceeded,
    ValidationFailed,
    WebhookNotConfigured,
)
from simservice.ids import new_token, next_id
from webhooks import endpoints

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """What a job may use: credits, simulator seconds they buy, and seconds in the queue.

    `capped` tells whether the caller, or the variant, set the cap: then all of it is reserved at submission.
    """

    credits: int
    runtime_seconds: int
    queue_seconds: int
    capped: bool


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """An accepted job, and what its caller should know about the request."""

    job: Job
    warnings: list[dict[str, Any]]
    deprecated_fields: list[str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The body of the answer to a submission, and the job it made; None when the answer was given before."""

    body: str
    job: Job | None


class Once(Protocol):
    """What keeps one request from making two jobs."""

    def answer(self) -> str | None:
        """Return the body that the request got before, None for a new one."""

    def remember(self, job: Job, body: str) -> None:
        """Note that the request made a job. Called in the transaction that stores it, under the account's lock."""


@dataclass(frozen=True)
class Sender:
    """Whose job it will be: a client's, sent with one of its keys or, without any, from a page."""

    client: Client
    key: ApiKey | None = None


@dataclass(frozen=True, kw_only=True)
class Vetted:
    """A request that passed every check that needs no lock."""

    submission: Submission
    sender: Sender
    ceilings: Ceilings
    analysis: Analysis
    pin: Build | None
    # Of all simulation workers; None if unknown or not needed.
    live_slots: int | None

    @property
    def plan(self) -> Plan:
        return self.sender.client.account.plan


def submit(
    submission: Submission,
    *,
    key: ApiKey,
    idempotency_key: str | None = None,
    render: Callable[[Accepted], str],
) -> Answer:
    """Accept a job for the key's client and announce it to the workers; `render` writes the answer's body.

    With an idempotency key that was used before, return the body it got then. Raises as `submit_once` does.
    """
    known = idempotency.Known(key, idempotency_key, submission)
    return submit_once(submission, sender=Sender(key.client, key), known=known, render=render)


def submit_once(
    submission: Submission, *, sender: Sender, known: Once, render: Callable[[Accepted], str]
) -> Answer:
    """Accept a job and announce it, unless the request is `known` by now.

    The checks come in the contract's order (section 3). Raises one of the errors of `simservice.api.errors`;
    nothing is stored then.
    """
    if (body := known.answer()) is not None:
        return Answer(body=body, job=None)
    forecast.require_open_queue()
    vetted = vet(submission, sender=sender)
    job_id = next_id()
    with credentials_kept(vetted, job_id=job_id):
        answer = store(vetted, known, job_id=job_id, render=render)
    if answer.job is None:
        forget_credentials(vetted, job_id=job_id)
    else:
        announce(answer.job)
    return answer


def announce(job: Job) -> None:
    """Announce a job that was stored. It is accepted, so whoever sent it must not be told to send it again.

    What a lost database leaves undone here, the sweep does.
    """
    try:
        announcements.announce(job)
    except DATABASE_AWAY:
        logger.warning("job %s not announced: the database does not answer", job.pk, exc_info=True)


def vet(submission: Submission, *, sender: Sender) -> Vetted:
    """Return the request with what its checks found out. Raises one of the errors of `simservice.api.errors`."""
    plan = sender.client.account.plan
    ceilings = ceilings_for(submission, plan=plan)
    analysis = validation.vet_profile(submission)
    validation.require_variants(analysis, plan=plan)
    pin = validation.require_pin(submission.build_id, git_branch=submission.git_branch, plan=plan)
    if submission.webhook_events and not endpoints.is_enabled(sender.client):
        raise WebhookNotConfigured
    # Read before the transaction, which a hanging Redis must not prolong.
    live_slots = forecast.live_slots() if submission.priority == Priority.HIGH else None
    return Vetted(
        submission=submission,
        sender=sender,
        ceilings=ceilings,
        analysis=analysis,
        pin=pin,
        live_slots=live_slots,
    )


@contextmanager
def credentials_kept(vetted: Vetted, *, job_id: int) -> Iterator[None]:
    """Keep the secrets of the job that the block stores, and forget them when it refuses to.

    Redis has no part in the transaction, so they come first: a job never waits without its own.
    """
    ceilings, given = vetted.ceilings, vetted.submission.credentials
    if given is not None:
        credentials.store(job_id, given, seconds=ceilings.queue_seconds + ceilings.runtime_seconds)
    try:
        yield
    except ApiError:
        forget_credentials(vetted, job_id=job_id)
        raise


def forget_credentials(vetted: Vetted, *, job_id: int) -> None:
    """Remove the secrets of a job that was not stored."""
    if vetted.submission.credentials is not None:
        credentials.forget(job_id)


@transaction.atomic
def store(vetted: Vetted, known: Once, *, job_id: int, render: Callable[[Accepted], str]) -> Answer:
    """Store the job and the answer to its submission, unless the request has one by now."""
    # Rows that refer to the account, such as a settlement's, may still be written meanwhile.
    account = Account.objects.select_for_update(no_key=True).get(pk=vetted.sender.client.account_id)
    # Whoever sent the same request at the same moment may have been first.
    if (body := known.answer()) is not None:
        return Answer(body=body, job=None)
    accepted = accept(vetted, account=account, job_id=job_id)
    body = render(accepted)
    known.remember(accepted.job, body)
    return Answer(body=body, job=accepted.job)


def accept(vetted: Vetted, *, account: Account, job_id: int) -> Accepted:
    """Store the job, its profile and its reservation. Call in a transaction that holds the account's lock.

    Raises MaxActiveJobsExceeded, InactiveEntitlement or InsufficientCredits.
    """
    require_room(account, plan=vetted.plan)
    if account.suspended_at is not None:
        raise InactiveEntitlement
    job = new_job(vetted, job_id=job_id, fee=priority_fee_of(vetted))
    reserve(job, account=account, plan=vetted.plan)
    lifecycle.accept(job)
    JobProfile.objects.create(job=job, text=vetted.submission.profile_text)
    return Accepted(
        job=job, warnings=warnings(vetted.analysis), deprecated_fields=deprecated_fields(vetted.submission)
    )


def deprecated_fields(submission: Submission) -> list[str]:
    """Return the fields of the request that are read for the sake of older callers only."""
    deprecated = variants.current().deprecated_cap_field
    caps = {"maxCredits": submission.max_credits, "maxRuntimeSeconds": submission.max_runtime_seconds}
    return [f"runtime.{deprecated}"] if deprecated and caps[deprecated] is not None else []


def ceilings_for(submission: Submission, *, plan: Plan) -> Ceilings:
    """Return what the job may use: what the request asks for, else the variant's and the plan's values.

    Raises ValidationFailed naming every field that is over the account's limit (contract, section 3).
    """
    refuse_over_limit(
        ("runtime.maxCredits", submission.max_credits, plan.max_credits_per_job),
        ("runtime.maxRuntimeSeconds", submission.max_runtime_seconds, plan.max_runtime_seconds),
        ("runtime.maxQueueSeconds", submission.max_queue_seconds, plan.max_queue_seconds),
    )
    variant, rate = variants.current(), plan.credits_per_second
    seconds = submission.max_runtime_seconds or variant.default_runtime_for(plan)
    cap = submission.max_credits or (seconds and seconds * rate)
    ceiling = cap or plan.max_credits_per_job
    return Ceilings(
        credits=ceiling,
        runtime_seconds=ceiling // rate,
        queue_seconds=submission.max_queue_seconds or variant.default_queue_for(plan),
        capped=bool(cap),
    )


def refuse_over_limit(*asked: tuple[str, int | None, int]) -> None:
    """Raise ValidationFailed for each (path, value, limit) whose value is over the account's limit."""
    issues = [
        {"path": path, "message": f"Must be at most {most}, the account's limit."}
        for path, value, most in asked
        if value is not None and value > most
    ]
    if issues:
        raise ValidationFailed(issues)


def require_room(account: Account, *, plan: Plan) -> None:
    """Raise MaxActiveJobsExceeded when a locked account has as many unfinished jobs as it may."""
    active = active_jobs(account)
    limit = plan.max_active_jobs
    if active >= limit:
        raise MaxActiveJobsExceeded({"reason": "active_jobs", "maxActiveJobs": limit, "activeJobs": active})


def active_jobs(account: Account) -> int:
    """Return how many of the account's jobs have not ended. One query on a partial index."""
    return Job.objects.filter(account=account, status__in=ACTIVE).count()


def priority_fee_of(vetted: Vetted) -> int:
    """Return the fee of a submission now, 0 if it is not due. At most two queries."""
    if vetted.submission.priority != Priority.HIGH:
        return 0
    due = priority_fee.buys_earlier_start(live_slots=vetted.live_slots or 0)
    return vetted.plan.high_priority_fee_credits if due else 0


def reserve(job: Job, *, account: Account, plan: Plan) -> None:
    """Hold the job's fee and its cap; without a cap, the first slice or what the account has of it.

    Raises InsufficientCredits.
    """
    fee = job.priority_fee_credits
    most = fee + (job.max_credits or budget.first_slice(job))
    least = fee + (job.max_credits or budget.first_second(job))
    try:
        ledger.hold(account, most, least=least, job_id=job.pk)
    except ledger.InsufficientCredits as shortage:
        meta = shortage_meta(job, required=least, available=shortage.available, plan=plan)
        raise InsufficientCredits(meta) from None


def shortage_meta(job: Job, *, required: int, available: int, plan: Plan) -> dict[str, Any]:
    """Return the `meta` of a shortage: the job's ceiling, the credits it needs and the largest affordable cap."""
    affordable = min(max(0, available - job.priority_fee_credits), plan.max_credits_per_job)
    meta = {
        "reason": "insufficient_credits",
        "ceilingMaxCredits": job.ceiling_credits,
        "maxAffordableCredits": affordable,
        "ceilingRuntimeSeconds": job.ceiling_runtime_seconds,
        "maxAffordableRuntimeSeconds": affordable // job.credits_per_second,
        "requiredCredits": required,
    }
    return meta | ({"priorityFeeCredits": job.priority_fee_credits} if job.priority == Priority.HIGH else {})


def new_job(vetted: Vetted, *, job_id: int, fee: int) -> Job:
    """Return the job a submission becomes, not yet stored."""
    submission, sender, ceilings = vetted.submission, vetted.sender, vetted.ceilings
    return Job(
        id=job_id,
        account=sender.client.account,
        client=sender.client,
        api_key=sender.key,
        priority=submission.priority,
        channel=submission.channel,
        git_branch=submission.git_branch,
        pinned_build=vetted.pin,
        multi_stage=submission.multi_stage,
        html=submission.html,
        csv=submission.csv,
        has_credentials=submission.credentials is not None,
        wants_webhook=bool(submission.webhook_events),
        json_version=submission.json_version,
        metadata=dict(submission.metadata),
        character=(vetted.analysis.main_actor or "")[:CHARACTER_LENGTH],
        other_characters=max(0, vetted.analysis.actors + vetted.analysis.copies - 1),
        max_credits=ceilings.credits if ceilings.capped else None,
        ceiling_credits=ceilings.credits,
        ceiling_runtime_seconds=ceilings.runtime_seconds,
        ceiling_queue_seconds=ceilings.queue_seconds,
        priority_fee_credits=fee,
        credits_per_second=vetted.plan.credits_per_second,
        vcpus=vetted.plan.vcpu_per_job,
        status=Status.PENDING,
        # The database's clock decides, as it does in the claim and in the sweep.
        created_at=Now(),
        updated_at=Now(),
        queue_deadline_at=Now() + timedelta(seconds=ceilings.queue_seconds),
        share_token=new_token(),
    )
