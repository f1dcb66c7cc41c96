"""What the picture of a job says. Summaries are untrusted: their texts are cut when they are drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from django.conf import settings

from dashboard.results import names
from dashboard.results.page import METRICS
from jobs.models import Job
from jobs.results import labels
from jobs.results.details import Actor, Details

Tone = Literal["good", "bad", "even"]
Entry = Mapping[str, Any]
LISTED = 3
# Larger numbers and percentages are shown as powers of ten.
LARGEST_NUMBER, LARGEST_PERCENTAGE = 1e9, 1e5


@dataclass(frozen=True, kw_only=True)
class Row:
    """One of the best entries: its bar has a width from 0 to 1, and `tone` colours the bar and the value."""

    name: str
    value: str
    tone: Tone
    width: float


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The spread of an actor's results: minimum and maximum, median if known, and the interval of the mean."""

    low: float
    high: float
    median: float | None
    mean: float
    error: float


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The number of the picture, what it is, its margin of error, and its difference from the baseline."""

    caption: str
    number: str
    unit: str
    error: str
    difference: str = ""
    explanation: str = ""
    tone: Tone = "even"


@dataclass(frozen=True, kw_only=True)
class Card:
    """Everything the picture says. Without a headline, `status` says why there is no result."""

    brand: str
    title: str
    fight: str
    class_name: str
    specialization: str
    notes: Sequence[str]
    status: str
    reason: str
    headline: Headline | None
    rows: Sequence[Row] = ()
    spread: Spread | None = None


def card_of(job: Job, details: Details | None) -> Card:
    """Return the content of a job's picture. No query if the job has its build."""
    summary = (job.summary or {}) if job.has_result else {}
    actor, actors = summary.get("mainActor"), summary.get("actors", {}).get("results", [])
    known = details.actors[0] if details and details.actors and actor else None
    unit = METRICS.get(summary.get("metric", ""), "DPS")
    return Card(
        brand=settings.SERVICE_BRAND,
        title=job.public_title,
        fight=_fight(details) if summary else "",
        class_name=known.class_name if known else "",
        specialization=_specialization(known),
        notes=_notes(job, summary),
        status=labels.status_of(job),
        reason=_reason(job),
        **_figures(actor, actors, known, unit),
    )


def _figures(actor: Entry | None, actors: Sequence[Entry], known: Actor | None, unit: str) -> dict[str, Any]:
    """Return the headline of a result with its rows or its spread."""
    profilesets = actor["profilesets"]["results"] if actor and actor.get("profilesets") else []
    if actor and profilesets:
        return {"headline": _best(actor, profilesets[0], unit), "rows": _gains(actor, profilesets[:LISTED])}
    if actor:
        return {"headline": _plain(actor, "Mean", unit), "spread": _spread(actor, known)}
    if actors:
        best = sorted(actors, key=lambda entry: -entry["mean"])[:LISTED]
        return {"headline": _plain(best[0], "Best actor", unit), "rows": _means(best)}
    return {"headline": None}


def _plain(entry: Entry, caption: str, unit: str) -> Headline:
    """Return a headline without a comparison."""
    return Headline(caption=caption, number=number(entry["mean"]), unit=unit, error=number(entry["mean_error"]))


def _best(baseline: Entry, best: Entry, unit: str) -> Headline:
    """Return the headline of the best profileset."""
    headline = _plain(best, "Best variant", unit)
    change, tone = _change(baseline, best), _tone(baseline, best)
    if change is None:
        return headline
    if tone == "even":
        return replace(headline, explanation="within the margin of error")
    explanation = "over the baseline" if change > 0 else "from the baseline"
    return replace(headline, difference=percent(change), explanation=explanation, tone=tone)


def _gains(baseline: Entry, entries: Sequence[Entry]) -> list[Row]:
    """Return profilesets with their differences from the baseline, or their means if the baseline's is zero."""
    changes = [change for change in (_change(baseline, entry) for entry in entries) if change is not None]
    if len(changes) < len(entries):
        return _means(entries)
    largest = max(map(abs, changes)) or 1.0
    return [
        Row(name=entry["name"], value=percent(change), tone=_tone(baseline, entry), width=abs(change) / largest)
        for entry, change in zip(entries, changes, strict=True)
    ]


def _means(entries: Sequence[Entry]) -> list[Row]:
    """Return entries with their means."""
    largest = max(abs(entry["mean"]) for entry in entries) or 1.0
    return [
        Row(name=entry["name"], value=number(entry["mean"]), tone="even", width=abs(entry["mean"]) / largest)
        for entry in entries
    ]


def _change(baseline: Entry, entry: Entry) -> float | None:
    """Return by how many percent an entry differs from the baseline, None for a baseline of zero."""
    change = (entry["mean"] - baseline["mean"]) / abs(baseline["mean"]) * 100 if baseline["mean"] else math.inf
    return change if math.isfinite(change) else None


def _tone(baseline: Entry, entry: Entry) -> Tone:
    """Return whether an entry is better or worse than the baseline by more than the margin of error."""
    gain = entry["mean"] - baseline["mean"]
    if abs(gain) <= math.hypot(entry["mean_error"], baseline["mean_error"]):
        return "even"
    return "good" if gain > 0 else "bad"


def _spread(actor: Entry, known: Actor | None) -> Spread | None:
    """Return the spread of an actor, None if the summary has none."""
    if not actor["min"] < actor["max"]:
        return None
    median = known.dps.median if known and known.dps else None
    # PostgreSQL stores large numbers as integers, whose difference can be too large for a float.
    low, high, mean, error = (float(actor[key]) for key in ("min", "max", "mean", "mean_error"))
    return Spread(low=low, high=high, median=median, mean=mean, error=error)


def _notes(job: Job, summary: Mapping[str, Any]) -> list[str]:
    """Return short facts: the number of variants or actors, an early end, the build."""
    actor = summary.get("mainActor") or {}
    variants, actors = actor.get("profilesets", {}).get("count", 0), summary.get("actors", {}).get("count", 0)
    notes = [f"{variants:,} variant{'s' if variants != 1 else ''}"] if variants else []
    notes += [f"{actors:,} actors"] if actors > 1 and not variants else []
    notes += ["Ended early"] if summary.get("partial") else []
    return notes + ([f"Build {job.build.simc_version}"] if job.build else [])


def _reason(job: Job) -> str:
    """Return why there is no result."""
    if not job.is_terminal:
        return "There is no result yet."
    return labels.public_reason(job) or "This job has no results."


def _specialization(known: Actor | None) -> str:
    """Return specialization and class as one name, empty if both are unknown."""
    name = names.specialization_of(known.class_name, known.specialization) if known else ""
    return "" if name.casefold().startswith("unknown") else name


def _fight(details: Details | None) -> str:
    """Return the fight as "Patchwerk · 1 target · 5:00"."""
    if details is None:
        return ""
    fight = details.fight
    parts = [fight.style]
    parts += [f"{fight.targets:,} target{'s' if fight.targets != 1 else ''}"] if fight.targets else []
    parts += ["{}:{:02}".format(*divmod(round(min(fight.length, 86_400)), 60))] if fight.length else []
    return " · ".join(filter(None, parts))


def number(value: float) -> str:
    """Return a number without decimals, with thousands separators."""
    text = f"{value:,.0f}" if abs(value) < LARGEST_NUMBER else f"{value:.3g}"
    return text.replace("-", "\N{MINUS SIGN}")


def percent(value: float) -> str:
    """Return a percentage with its sign."""
    text = f"{value:+,.1f}" if abs(value) < LARGEST_PERCENTAGE else f"{value:+.3g}"
    return f"{text} %".replace("-", "\N{MINUS SIGN}")
