"""Whether a submitted profile may run: the policy, the plan's variants and the build it asks for."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from billing.models import Plan
from jobs.builds import registry
from jobs.models import Build
from jobs.profiles.analysis import Analysis, analyse_submitted
from jobs.profiles.policy import Refusal, Rules
from jobs.runs.input_text import NOTHING_TO_SIMULATE, bounds, shown
from jobs.submission.request import Submission
from simservice.api.errors import BuildPinNotAllowed, BuildPinUnavailable, ProfileRefused, TooManyVariants

MAX_PIN_AGE_DAYS = 30
NOTHING_BLOCKED: dict[str, Any] = {"blocked": [], "blockedCount": 0, "blockedTruncated": False}


def analysis_of(submission: Submission) -> Analysis:
    """Return what a profile would do, whether or not it may run."""
    bundled = registry.BundledNames(submission.git_branch, build_id=submission.build_id)
    rules = Rules(bundled=bundled, profiles=bundled.profiles, has_credentials=submission.credentials is not None)
    return analyse_submitted(submission.profile_text, rules=rules, bounds=bounds())


def vet_profile(submission: Submission) -> Analysis:
    """Return what a profile would do.

    Raises ProfileRefused if it must not run, would simulate nothing, or exceeds a limit on its size.
    """
    analysis = analysis_of(submission)
    if analysis.excess:
        message = f"The profile has {analysis.excess}; split it into several jobs."
        raise ProfileRefused({"message": message, **NOTHING_BLOCKED}, message=message)
    if analysis.refused:
        raise ProfileRefused(refusal_meta(analysis))
    if not analysis.has_actor:
        raise ProfileRefused({"message": NOTHING_TO_SIMULATE, **NOTHING_BLOCKED}, message=NOTHING_TO_SIMULATE)
    return analysis


def refusal_meta(analysis: Analysis) -> dict[str, Any]:
    """Return what a caller is told of refused directives: the first twenty, and how many there are."""
    first = analysis.refusals[0]
    more = f" {analysis.refused - 1} more directives are refused." if analysis.refused > 1 else ""
    return {
        "message": f"Line {first.line}, {shown(first.text)}: {first.reason}.{more}",
        "blocked": [blocked(refusal) for refusal in analysis.refusals],
        "blockedCount": analysis.refused,
        "blockedTruncated": analysis.refused > len(analysis.refusals),
    }


def blocked(refusal: Refusal) -> dict[str, Any]:
    """Return one refused directive as the contract lists it."""
    return {"line": refusal.line, "text": shown(refusal.text)}


def require_variants(analysis: Analysis, *, plan: Plan) -> None:
    """Raise TooManyVariants when a profile has more variants than the plan allows."""
    if analysis.variants <= plan.max_variants:
        return
    message = f"The profile has {analysis.variants} variants; the plan allows {plan.max_variants}."
    raise TooManyVariants(
        {
            "message": message,
            "totalVariants": analysis.variants,
            "maxVariants": plan.max_variants,
            "upgradeUrl": None,
            **NOTHING_BLOCKED,
        },
        message=message,
    )


def require_pin(build_id: UUID | None, *, git_branch: str, plan: Plan) -> Build | None:
    """Return the pinned build, None without a pin. Raises BuildPinNotAllowed or BuildPinUnavailable."""
    if build_id is None:
        return None
    if not plan.allows_build_pin:
        raise BuildPinNotAllowed(pin_meta(BuildPinNotAllowed.message, build_id))
    oldest = timezone.now() - timedelta(days=MAX_PIN_AGE_DAYS)
    build = registry.available(git_branch).filter(pk=build_id, created_at__gte=oldest).first()
    if build is None:
        message = f"There is no build {build_id} on {git_branch}, or it is over {MAX_PIN_AGE_DAYS} days old."
        raise BuildPinUnavailable(pin_meta(message, build_id), message=message)
    return build


def pin_meta(message: str, build_id: UUID) -> dict[str, Any]:
    """Return the `meta` of a pin that cannot be used."""
    return {
        "message": message,
        "buildId": str(build_id),
        "maxPinAgeDays": MAX_PIN_AGE_DAYS,
        **NOTHING_BLOCKED,
    }
