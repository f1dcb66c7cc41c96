"""What the picture of a job says. Summaries are untrusted: their texts are cut when they are drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from dashboard.results import names
from dashboard.results.headline import Spread
from jobs.models import Job
from jobs.results import labels
from jobs.results.details import Actor, Details, Fight
from jobs.results.rankings import Entry, listed
from jobs.results.verdicts import EVEN, METRICS, Compared

LISTED = 3
# Larger numbers and percentages are shown as powers of ten.
LARGEST_NUMBER, LARGEST_PERCENTAGE = 1e9, 1e5


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One of the best entries: its bar has a width from 0 to 1, and `kind` colours the bar and the value."""

    name: str
    value: str
    kind: str
    width: float


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The number of the picture, what it is, its margin of error, and its difference from the baseline."""

    caption: str
    number: str
    unit: str
    error: str
    difference: str = ""
    explanation: str = ""
    kind: str = EVEN


@dataclass(frozen=True, kw_only=True)
class Card:
    """The texts of the picture. Without a headline, `status` says why there is no result."""

    brand: str
    title: str
    fight: str
    class_name: str
    specialization: str
    notes: Sequence[str]
    status: str
    reason: str
    headline: Headline | None
    bars: Sequence[Bar] = ()
    spread: Spread | None = None


def card_of(job: Job, details: Details | None) -> Card:
    """Return the content of a job's picture."""
    summary = (job.summary or {}) if job.has_result else {}
    main, actors = summary.get("mainActor"), summary.get("actors", {}).get("results", [])
    known = details.actors[0] if details and details.actors and main else None
    unit = METRICS.get(summary.get("metric", ""), "DPS")
    name = names.specialization_of(known.class_name, known.specialization) if known else ""
    no_result = labels.public_reason(job) or "This job has no results."
    return Card(
        brand=settings.SERVICE_BRAND,
        title=job.public_title,
        fight=_fight(details.fight) if summary and details else "",
        class_name=known.class_name if known else "",
        specialization="" if name.casefold().startswith("unknown") else name,
        notes=_notes(job, summary),
        status=labels.status_of(job),
        reason=no_result if job.is_terminal else "There is no result yet.",
        **_figures(main, actors, known, unit),
    )


def _figures(
    main: Mapping[str, Any] | None, actors: Sequence[Mapping[str, Any]], known: Actor | None, unit: str
) -> dict[str, Any]:
    if main:
        (own,) = listed([main], first=0)
        if profilesets := listed((main.get("profilesets") or {}).get("results", [])[:LISTED]):
            return _gains(Compared(profilesets, own, base=0), unit)
        return {"headline": _plain(own, "Mean", unit), "spread": _spread(own, known)}
    if actors:
        best = listed(sorted(actors, key=lambda entry: -entry["mean"])[:LISTED])
        return {"headline": _plain(best[0], "Best actor", unit), "bars": _means(best)}
    return {"headline": None}


def _plain(entry: Entry, caption: str, unit: str) -> Headline:
    return Headline(caption=caption, number=number(entry.mean), unit=unit, error=number(entry.error))


def _gains(compared: Compared, unit: str) -> dict[str, Any]:
    """Return the best profileset and the differences from the baseline, or means if the baseline's is zero."""
    headline = _plain(compared.entries[0], "Best variant", unit)
    found = map(compared.change_of, compared.entries)
    changes = [change for change in found if change is not None and math.isfinite(change)]
    if len(changes) < len(compared.entries):
        return {"headline": headline, "bars": _means(compared.entries)}
    if compared.kinds[0] == EVEN:
        headline = replace(headline, explanation="within the margin of error")
    else:
        explanation = "over the baseline" if changes[0] > 0 else "from the baseline"
        headline = replace(
            headline, difference=percent(changes[0]), explanation=explanation, kind=compared.kinds[0]
        )
    largest = max(map(abs, changes)) or 1.0
    parts = zip(compared.entries, changes, compared.kinds, strict=True)
    return {
        "headline": headline,
        "bars": [
            Bar(name=entry.name, value=percent(change), kind=kind, width=abs(change) / largest)
            for entry, change, kind in parts
        ],
    }


def _means(entries: Sequence[Entry]) -> list[Bar]:
    largest = max(abs(entry.mean) for entry in entries) or 1.0
    return [
        Bar(name=entry.name, value=number(entry.mean), kind=EVEN, width=abs(entry.mean) / largest)
        for entry in entries
    ]


def _spread(own: Entry, known: Actor | None) -> Spread | None:
    """Return the spread of an actor, None if the summary has none."""
    if own.low is None or own.high is None or own.low >= own.high:
        return None
    median = known.dps.median if known and known.dps else None
    return Spread(mean=own.mean, error=own.error, low=own.low, high=own.high, median=median)


def _notes(job: Job, summary: Mapping[str, Any]) -> list[str]:
    """Return short facts: the number of variants or actors, an early end, the build."""
    main = summary.get("mainActor") or {}
    variants, actors = main.get("profilesets", {}).get("count", 0), summary.get("actors", {}).get("count", 0)
    notes = [f"{variants:,} variant{'s' if variants != 1 else ''}"] if variants else []
    notes += [f"{actors:,} actors"] if actors > 1 and not variants else []
    notes += ["Ended early"] if summary.get("partial") else []
    return notes + ([f"Build {job.build.simc_version}"] if job.build else [])


def _fight(fight: Fight) -> str:
    """Return the fight as "Patchwerk · 1 target · 5:00"."""
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
