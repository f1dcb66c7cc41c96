"""The check of a job form: what a submission would run and cost, in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from billing.models import Plan
from jobs.enums import MultistageReason
from jobs.planning.estimates import CreditsRange, Estimate, Range
from jobs.results import labels
from jobs.submission.dry_run import DryRun
from simc.characters import visible
from simc.profiles.analysis import LISTED_WARNINGS
from simc.profiles.policy import Refusal

CONTEXT_LINES = 2
MAX_LINE_LENGTH = 200
MAX_WARNINGS = 5
UNKNOWN_TIME = "Unknown until a job has completed on this build"
NO_BUILD = "None"


def check_of(found: DryRun, *, plan: Plan) -> dict[str, Any]:
    """Return the result of a dry run in words: labels and texts as `facts`, and what the estimate is based on."""
    return {
        "names": found.names,
        # Actors whose names are not listed
        "others": max(0, found.actors - len(found.names)),
        "facts": list(_facts(found, plan)),
        "summary": list(_summary(found)),
        "basis": _basis(found.estimate) if found.estimate else "",
        "warnings": list(_warnings(found)),
    }


def _summary(found: DryRun) -> Iterator[str]:
    """Yield what is compared, the time and the price, as far as they are known."""
    count, noun = (found.variants, "variant") if found.variants else (found.actors, "character")
    yield f"{count:,} {noun}{'' if count == 1 else 's'}"
    if found.estimate and found.price:
        yield f"about {_rounded(found.estimate.seconds.expected)}"
        yield f"about {_credits(found.price.expected + found.fee_credits)}"
    elif found.ceilings:
        yield f"at most {_credits(found.ceilings.credits + found.fee_credits)}"


def _facts(found: DryRun, plan: Plan) -> Iterator[tuple[str, str]]:
    yield "Variants", f"{found.variants:,} (limit: {plan.max_variants:,})"
    yield "Stages", _stages(found)
    build, fee = found.build, f", plus a fee of {_credits(found.fee_credits)}" if found.fee_credits else ""
    yield "Build", f"{build.simc_version} ({build})" if build else NO_BUILD
    if found.estimate and found.price:
        yield "Time", _about_seconds(found.estimate.seconds)
        yield "Cost", f"{_about_credits(found.price)}{fee}"
    elif found.ceilings and build:
        yield "Time", UNKNOWN_TIME
    if found.ceilings:
        runtime = f"enough for {labels.duration(found.ceilings.runtime_seconds)} of simulation"
        yield "Limit", f"{_credits(found.ceilings.credits)}, {runtime}{fee}"
    if found.start:
        ahead, seconds = found.start.ahead, found.start.seconds
        jobs = f", {ahead:,} job{'' if ahead == 1 else 's'} ahead"
        yield (
            "Start",
            f"Unknown{jobs}" if seconds is None else labels.soon(seconds).capitalize() + (jobs if ahead else ""),
        )


def _stages(found: DryRun) -> str:
    if found.stages.enabled:
        return f"{len(found.stages.stages)} stages"
    if found.stages.reason == MultistageReason.DISABLED:
        return "Single pass"
    return f"Single pass: {labels.SINGLE_PASS[found.stages.reason]}"


def _about_seconds(seconds: Range) -> str:
    """Return the expected time with its range."""
    low, expected, high = (_rounded(value) for value in (seconds.low, seconds.expected, seconds.high))
    return f"About {expected}" if low == expected == high else f"About {expected} ({low} to {high})"


def _rounded(seconds: float) -> str:
    """Return a time with two digits, which is what an estimate can know."""
    return labels.duration(float(f"{seconds:.2g}"))


def _about_credits(price: CreditsRange) -> str:
    """Return the expected price with its range. These are whole seconds, so they are not rounded again."""
    about = f"About {_credits(price.expected)}"
    if price.low == price.expected == price.high:
        return about
    return f"{about} ({price.low:,} to {price.high:,})"


def _credits(count: int) -> str:
    return f"{count:,} credit{'' if count == 1 else 's'}"


def _basis(estimate: Estimate) -> str:
    jobs = "1 past job" if estimate.jobs == 1 else f"{estimate.jobs} past jobs"
    whose = "of this account" if estimate.is_own else "of this service"
    return f"Estimated from {jobs} {whose} {'on this build' if estimate.on_build else 'on several builds'}."


def _warnings(found: DryRun) -> Iterator[str]:
    if found.estimate and found.ceilings and found.estimate.seconds.expected > found.ceilings.runtime_seconds:
        yield f"The job will probably reach its limit before it ends. {labels.RAISE_THE_LIMIT}"
    if found.failure:
        yield str(found.failure.reason)
    yield from listed(found.warnings)


def listed(warnings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the first warnings of a submission with their lines, and how many more there are."""
    for warning in warnings[:MAX_WARNINGS]:
        at = "" if warning["line"] is None else f"Line {warning['line']}: "
        yield f"{at}{warning['message']}"
    if unlisted := len(warnings[MAX_WARNINGS:]):
        at_least = "At least " if len(warnings) == LISTED_WARNINGS else ""
        yield f"{at_least}{unlisted:,} more warning{'' if unlisted == 1 else 's'}."


def lines_in_context(text: str, refusals: Sequence[Refusal]) -> list[dict[str, Any]]:
    """Return the refused lines of a profile with their reasons and surrounding lines."""
    reasons: dict[int, Refusal] = {}
    for refusal in refusals:
        reasons.setdefault(refusal.line, refusal)
    lines = text.split("\n") if reasons else []
    around = (number for line in reasons for number in range(line - CONTEXT_LINES, line + CONTEXT_LINES + 1))
    shown = {number for number in around if 0 < number <= len(lines)}
    return [
        {
            "number": number,
            "text": visible(lines[number - 1][:MAX_LINE_LENGTH]),
            "reason": reasons[number].reason if number in reasons else "",
            "gap": number - 1 not in shown and number > 1,
        }
        for number in sorted(shown)
    ]
