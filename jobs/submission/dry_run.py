"""Dry run of a submission: whether it would be accepted now, what would run, and what that would cost.

It makes the checks of a submission in their order (`docs/reference/errors.md#order-of-checks`), but locks, stores
and charges nothing.
"""

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from jobs import registry
from jobs.errors import JobsError
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import CHARACTER_LENGTH, Build
from jobs.planning import estimates, multistage
from jobs.planning.estimates import CreditsRange, Estimate
from jobs.planning.input_text import bounds
from jobs.planning.multistage import StagePlan
from jobs.queue import forecast
from jobs.queue.forecast import QueuePosition
from jobs.submission import accept, validation
from jobs.submission.request import Submission
from jobs.submission.validation import Ceilings, CheckedSubmission, Sender
from jobs.submission.warnings import warnings_of
from simc.profiles.analysis import Analysis
from simc.profiles.policy import Refusal


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """The result of a dry run.

    `refusal` is the error with which the submission would be refused, None if it would be accepted. `refusals` are
    the first of `refused` lines. Fields are None if they are unknown: `ceilings` after a refusal by an earlier
    check, `build` if none is available, and `start` while the queue is unknown.
    """

    refusal: JobsError | None
    # How a job that is accepted would end at once, None if it can run
    failure: Outcome | None
    refusals: tuple[Refusal, ...]
    refused: int
    warnings: list[dict[str, Any]]
    # Without those of included files, which are read when the job runs
    variants: int
    actors: int
    # The first names of actors and copies
    names: tuple[str, ...]
    stages: StagePlan
    build: Build | None
    ceilings: Ceilings | None
    fee_credits: int
    start: QueuePosition | None
    estimate: Estimate | None
    price: CreditsRange | None


def run(submission: Submission, *, sender: Sender, analysis: Analysis | None = None) -> DryRun:
    """Return what would happen to a submission now. At most nine queries, three for most submissions.

    `analysis` is that of the profile if it is known already.
    """
    analysis = analysis or validation.analysis_of(submission)
    checked, fee_credits, refusal = _ruling(submission, analysis, sender=sender)
    pin = checked.pin if checked else None
    build = pin or _build_of(submission)
    stages = multistage.plan(analysis, wanted=submission.multi_stage, bounds=bounds())
    snapshot = forecast.current()
    estimate = estimates.estimate(sender.client.account, build, analysis, stages) if checked and build else None
    return DryRun(
        refusal=refusal,
        failure=None if build else job_moves.BUILD_UNAVAILABLE,
        refusals=tuple(analysis.refusals),
        refused=analysis.refused,
        warnings=warnings_of(submission, analysis, build=build),
        variants=analysis.counted_variants,
        actors=analysis.actors + analysis.included_actors + analysis.copies,
        names=tuple(name[:CHARACTER_LENGTH] for name in analysis.names),
        stages=stages,
        build=build,
        ceilings=checked.ceilings if checked else None,
        fee_credits=fee_credits,
        start=snapshot.position_of_new(submission.priority) if snapshot else None,
        estimate=estimate,
        price=_price(estimate, checked) if estimate and checked else None,
    )


def _ruling(
    submission: Submission, analysis: Analysis, *, sender: Sender
) -> tuple[CheckedSubmission | None, int, JobsError | None]:
    """Return the submission if it passes the checks without a lock, its fee, and the error of a failed check."""
    checked, fee_credits = None, 0
    try:
        checked = accept.check(submission, sender=sender, analysis=analysis)
        fee_credits = accept.fee_now(checked)
        accept.require_storable(checked, fee_credits=fee_credits)
    except JobsError as error:
        return checked, fee_credits, error
    return checked, fee_credits, None


def _price(estimate: Estimate, checked: CheckedSubmission) -> CreditsRange:
    return estimate.credits(credits_per_second=checked.plan.credits_per_second, ceiling=checked.ceilings.credits)


def _build_of(submission: Submission) -> Build | None:
    """Return the build that the channel means now, or None. One query."""
    return registry.for_channel(submission.channel, submission.git_branch, now=timezone.now())
