"""From a request to an accepted job, in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from billing import ledger
from billing.models import Account, Plan
from clients.models import ApiKey
from jobs import lifecycle, queue, vetting
from jobs.models import ACTIVE, Build, Channel, Job, JobProfile, Priority, Status
from jobs.profiles.analysis import warnings
from simservice.api.errors import MaxActiveJobsExceeded, ValidationFailed, WebhookNotConfigured
from simservice.ids import new_token, next_id


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What a caller asks for, whichever form it came in. Times in seconds."""

    channel: Channel
    git_branch: str
    build_id: UUID | None
    profile_text: str
    max_credits: int | None
    max_queue_seconds: int | None
    priority: Priority
    metadata: Mapping[str, str]
    html: bool
    json_version: int
    webhook_events: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """What a job may use: credits, simulator seconds they buy, and seconds in the queue."""

    credits: int
    runtime_seconds: int
    queue_seconds: int


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """An accepted job, and what its caller should know about its profile."""

    job: Job
    warnings: list[dict[str, Any]]


def submit(submission: Submission, *, key: ApiKey) -> Accepted:
    """Accept a job for the key's client and announce it to the workers.

    The checks come in the contract's order (section 3). Raises one of the errors of `simservice.api.errors`;
    nothing is stored then.
    """
    account = key.client.account
    plan = account.plan
    ceilings = ceilings_for(submission, plan=plan)
    analysis = vetting.vet_profile(
        submission.profile_text, git_branch=submission.git_branch, build_id=submission.build_id
    )
    vetting.require_variants(analysis, plan=plan)
    pin = vetting.require_pin(submission.build_id, git_branch=submission.git_branch, plan=plan)
    if submission.webhook_events:
        raise WebhookNotConfigured
    with transaction.atomic():
        require_room(account)
        job = new_job(submission, key=key, ceilings=ceilings, pin=pin)
        lifecycle.accept(job)
        JobProfile.objects.create(job=job, text=submission.profile_text)
        ledger.hold(account, ceilings.credits, job_id=job.pk)
    queue.announce(job)
    return Accepted(job=job, warnings=warnings(analysis))


def ceilings_for(submission: Submission, *, plan: Plan) -> Ceilings:
    """Return what the job may use: what the request asks for, else the plan's values.

    Raises ValidationFailed naming every field that is over the plan's limit (contract, section 3).
    """
    budget = submission.max_credits or plan.max_credits_per_job
    queue_seconds = submission.max_queue_seconds or plan.default_queue_seconds
    issues = [
        *out_of_bounds("runtime.maxCredits", budget, most=plan.max_credits_per_job),
        *out_of_bounds("runtime.maxQueueSeconds", queue_seconds, most=plan.max_queue_seconds),
    ]
    if issues:
        raise ValidationFailed(issues)
    runtime_seconds = budget // plan.credits_per_second
    return Ceilings(credits=budget, runtime_seconds=runtime_seconds, queue_seconds=queue_seconds)


def out_of_bounds(path: str, value: int, *, most: int) -> list[dict[str, str]]:
    """Return the issue of a number outside the account's limits, or nothing."""
    if 1 <= value <= most:
        return []
    return [{"path": path, "message": f"Must be from 1 to {most}, the account's limit."}]


def require_room(account: Account) -> None:
    """Lock the account and raise MaxActiveJobsExceeded when it has as many unfinished jobs as it may."""
    # Rows that refer to the account, such as a settlement's, may still be written meanwhile.
    Account.objects.select_for_update(no_key=True).get(pk=account.pk)
    active = active_jobs(account)
    limit = account.plan.max_active_jobs
    if active >= limit:
        raise MaxActiveJobsExceeded({"reason": "active_jobs", "maxActiveJobs": limit, "activeJobs": active})


def active_jobs(account: Account) -> int:
    """Return how many of the account's jobs have not ended. One query on a partial index."""
    return Job.objects.filter(account=account, status__in=ACTIVE).count()


def new_job(submission: Submission, *, key: ApiKey, ceilings: Ceilings, pin: Build | None) -> Job:
    """Return the job a submission becomes, not yet stored."""
    return Job(
        id=next_id(),
        account=key.client.account,
        client=key.client,
        api_key=key,
        priority=submission.priority,
        channel=submission.channel,
        git_branch=submission.git_branch,
        pinned_build=pin,
        html=submission.html,
        json_version=submission.json_version,
        metadata=dict(submission.metadata),
        max_credits=submission.max_credits,
        ceiling_credits=ceilings.credits,
        ceiling_runtime_seconds=ceilings.runtime_seconds,
        ceiling_queue_seconds=ceilings.queue_seconds,
        credits_per_second=key.client.account.plan.credits_per_second,
        vcpus=key.client.account.plan.vcpu_per_job,
        status=Status.PENDING,
        # The database's clock decides, as it does in the claim and in the sweep.
        created_at=Now(),
        updated_at=Now(),
        queue_deadline_at=Now() + timedelta(seconds=ceilings.queue_seconds),
        share_token=new_token(),
    )
