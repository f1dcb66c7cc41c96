"""How a job ended, if it did not complete: one statement for all pages, which repeats and contradicts nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.enums import ErrorCode, PublicStatus
from jobs.models import Job
from jobs.results import labels

# Errors that a change of the profile can correct
PROFILE_ERRORS = (ErrorCode.SIMULATION_ERROR, ErrorCode.INPUT_INVALID)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """`headline` says how far the job came, `reason` why it ended. Both are sentences.

    A job that did not come far has only the reason, as its headline.
    `missed` variants have no result but can have one. `needs_correction` says that the profile caused the error.
    """

    headline: str
    reason: str
    has_result: bool
    missed: int
    needs_correction: bool


def ending_of(job: Job, *, reason: str, credits_billed: int | None = None) -> Ending | None:
    """Return how a job ended, or None if it completed or has not ended.

    `reason` is the job's reason as its reader may see it. Only those who pay see the billed credits.
    """
    if not job.is_terminal or job.public_status == PublicStatus.COMPLETED:
        return None
    failed = job.public_status == PublicStatus.FAILED and job.error_code != ErrorCode.INSUFFICIENT_CREDITS
    # The percentage of a run that failed with a part of its results says nothing about them.
    at = f" at {int(job.percent)} %" if job.percent >= 1 and not (failed and job.is_partial) else ""
    billed = f"{credits_billed:,} credit{'' if credits_billed == 1 else 's'} billed" if credits_billed else ""
    known = ", ".join(filter(None, [_simulated(_result_in(job)), billed]))
    reached = f"{'Failed' if failed else 'Stopped'}{at}{': ' if known else ''}{known}." if at or known else ""
    why = _without_figures(reason, job)
    return Ending(
        headline=reached or why or f"{labels.status_of(job)}.",
        reason=why if reached else "",
        has_result=bool(_result_in(job)),
        missed=missed_variants(job),
        needs_correction=job.error_code in PROFILE_ERRORS,
    )


def missed_variants(job: Job) -> int:
    """Return how many variants of a stopped job have no result, 0 without any result to add them to."""
    summary = _result_in(job)
    return int(summary.get("not_reached", {}).get("profilesets", 0)) if summary.get("mainActor") else 0


def _result_in(job: Job) -> Mapping[str, Any]:
    return (job.summary or {}) if job.has_result else {}


def _simulated(summary: Mapping[str, Any]) -> str:
    """Return how many of a job's variants or actors were simulated, as a phrase; empty if it has no others."""
    missed: Mapping[str, int] = summary.get("not_reached", {})
    variants = (summary.get("mainActor") or {}).get("profilesets", {}).get("count", 0)
    actors = summary.get("actors", {}).get("count", 0)
    for count, missing, noun in (
        (variants, missed.get("profilesets", 0), "variant"),
        (actors, missed.get("actors", 0), "actor"),
    ):
        if count + missing:
            of = f"{count:,} of {count + missing:,}" if missing else f"all {count:,}"
            return f"{of} {noun}{'' if count + missing == 1 else 's'} simulated"
    return ""


def _without_figures(reason: str, job: Job) -> str:
    """Return a reason without the sentences that the headline replaces."""
    missed = (job.summary or {}).get("not_reached", {})
    counted = labels.not_reached(missed.get("actors", 0), missed.get("profilesets", 0))
    return reason.removesuffix(counted).strip().removesuffix(labels.TIME_IS_BILLED).strip()
