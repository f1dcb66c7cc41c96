"""Checks of a submission that need no lock: the plan's limits, the profile, the pinned build and the webhook."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.utils import timezone

from billing import prices
from billing.models import Plan
from clients.models import ApiKey, Client
from jobs import api_mode, registry
from jobs.enums import Priority
from jobs.errors import (
    CapTooSmall,
    LimitsExceeded,
    NothingToSimulate,
    PinNotAllowed,
    PinUnavailable,
    ProfileRejected,
    ProfileTooComplex,
    VariantLimitExceeded,
    WebhookNotEnabled,
)
from jobs.models import Build
from jobs.planning.input_text import bounds
from jobs.queue import forecast
from jobs.submission.request import Submission
from simc.profiles.analysis import Analysis, analyse_submitted
from simc.profiles.policy import Rules
from webhooks import endpoints

MAX_PIN_AGE_DAYS = 30


@dataclass(frozen=True)
class Sender:
    """The client of a job, and the API key of the request, None for a job from the dashboard."""

    client: Client
    key: ApiKey | None = None


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The limits of a job: credits, the simulator seconds they buy, and seconds in the queue.

    `capped` is true if the request or the variant sets a cap, and `reserved_in_full` if the cap is reserved at
    submission, and not as the job runs.
    """

    credits: int
    runtime_seconds: int
    queue_seconds: int
    capped: bool
    reserved_in_full: bool


@dataclass(frozen=True, kw_only=True)
class CheckedSubmission:
    """A submission that passed every check that needs no lock."""

    submission: Submission
    sender: Sender
    ceilings: Ceilings
    analysis: Analysis
    pin: Build | None
    # The slots of all simulation workers, None if unknown or not needed
    live_slots: int | None

    @property
    def plan(self) -> Plan:
        return self.sender.client.account.plan


def check(submission: Submission, *, sender: Sender, analysis: Analysis | None = None) -> CheckedSubmission:
    """Check a submission in the order of `docs/reference/errors.md#order-of-checks`.

    `analysis` is that of the profile if it is known already. Raises an error of `jobs.errors`.
    """
    plan = sender.client.account.plan
    ceilings = _ceilings_for(submission, plan=plan)
    analysis = _require_runnable(analysis or analysis_of(submission))
    if analysis.counted_variants > plan.max_variants:
        raise VariantLimitExceeded(variants=analysis.counted_variants, limit=plan.max_variants)
    pin = _pinned_build(submission.build_id, git_branch=submission.git_branch, plan=plan)
    if submission.webhook_events and not endpoints.is_enabled(sender.client):
        raise WebhookNotEnabled
    # Read before the transaction, so that a slow Redis does not prolong it.
    live_slots = forecast.live_slots() if submission.priority == Priority.HIGH else None
    return CheckedSubmission(
        submission=submission, sender=sender, ceilings=ceilings, analysis=analysis, pin=pin, live_slots=live_slots
    )


def analysis_of(submission: Submission) -> Analysis:
    """Return the analysis of a profile, even if the profile is rejected."""
    bundled = registry.BundledNames(submission.git_branch, build_id=submission.build_id)
    rules = Rules(bundled=bundled, profiles=bundled.profiles, has_credentials=submission.credentials is not None)
    return analyse_submitted(submission.profile_text, rules=rules, bounds=bounds())


def _require_runnable(analysis: Analysis) -> Analysis:
    """Return the analysis of a profile. Raises ProfileTooComplex, ProfileRejected or NothingToSimulate."""
    if analysis.excess:
        raise ProfileTooComplex(excess=analysis.excess)
    if analysis.refused:
        raise ProfileRejected(refusals=analysis.refusals, count=analysis.refused)
    if not analysis.has_actor:
        raise NothingToSimulate(lost_line_breaks=analysis.lost_line_breaks)
    return analysis


def _ceilings_for(submission: Submission, *, plan: Plan) -> Ceilings:
    """Return the limits of a job: those of the request, else the defaults of the variant and the plan.

    Raises LimitsExceeded with all fields that exceed the plan's limits, or CapTooSmall.
    """
    _require_within_plan(
        ("max_credits", submission.max_credits, plan.max_credits_per_job),
        ("max_runtime_seconds", submission.max_runtime_seconds, plan.max_runtime_seconds),
        ("max_queue_seconds", submission.max_queue_seconds, plan.max_queue_seconds),
    )
    variant, rate = api_mode.current(), plan.credits_per_second
    if submission.max_credits is not None and submission.max_credits < rate:
        raise CapTooSmall(minimum=rate)
    seconds = submission.max_runtime_seconds or variant.default_runtime_for(plan)
    cap = submission.max_credits or (seconds and seconds * rate)
    ceiling = cap or plan.max_credits_per_job
    return Ceilings(
        credits=ceiling,
        runtime_seconds=prices.seconds_for(ceiling, credits_per_second=rate),
        queue_seconds=submission.max_queue_seconds or variant.default_queue_for(plan),
        capped=bool(cap),
        reserved_in_full=bool(submission.max_credits or (cap and variant.reserves_runtime_caps)),
    )


def _require_within_plan(*limits: tuple[str, int | None, int]) -> None:
    """Raise LimitsExceeded for fields whose value exceeds the limit. `limits` has field, value and limit."""
    exceeded = {field: limit for field, value, limit in limits if value is not None and value > limit}
    if exceeded:
        raise LimitsExceeded(limits=exceeded)


def _pinned_build(build_id: UUID | None, *, git_branch: str, plan: Plan) -> Build | None:
    """Return the pinned build, or None. Raises PinNotAllowed or PinUnavailable."""
    if build_id is None:
        return None
    if not plan.allows_build_pin:
        raise PinNotAllowed(build_id=build_id)
    oldest = timezone.now() - timedelta(days=MAX_PIN_AGE_DAYS)
    build = registry.available(git_branch).filter(pk=build_id, created_at__gte=oldest).first()
    if build is None:
        raise PinUnavailable(build_id=build_id, git_branch=git_branch, max_age_days=MAX_PIN_AGE_DAYS)
    return build
