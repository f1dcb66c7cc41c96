"""What the picture of a job says. Summaries are untrusted: their texts are cut when they are drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from dashboard.results import names
from dashboard.results.headline import LABELS, Spread
from jobs.models import Job
from jobs.results import labels
from jobs.results.details import Actor, Details, Fight
from jobs.results.rankings import Entry
from jobs.results.verdicts import (
    EVEN,
    GAIN,
    Compared,
    actors_of,
    count_in,
    number,
    percent,
    percent_with_margin,
    unit_of,
    variants_of,
)

LISTED = 3


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
    # What the result says, unless the headline and the first bar say it
    verdict: str = ""
    bars: Sequence[Bar] = ()
    spread: Spread | None = None


def card_of(job: Job, details: Details | None) -> Card:
    """Return the content of a job's picture."""
    summary = (job.summary or {}) if job.has_result else {}
    main = summary.get("mainActor")
    known = details.actors[0] if details and details.actors and main else None
    name = names.specialization_of(known.class_name, known.specialization) if known else ""
    no_result = labels.public_reason(job) or "This job has no results."
    return Card(
        brand=settings.SERVICE_BRAND,
        title=job.public_title,
        fight=_fight(details.fight) if summary and details else "",
        class_name=known.class_name if known else "",
        # A title is often the name of a character without a better one.
        specialization="" if name.casefold().startswith("unknown") or name == job.public_title else name,
        notes=_notes(job, summary),
        status=labels.status_of(job),
        reason=no_result if job.is_terminal else "There is no result yet.",
        **_figures(summary, known),
    )


def _figures(summary: Mapping[str, Any], known: Actor | None) -> dict[str, Any]:
    compared = variants_of(summary) or actors_of(summary)
    if compared is None:
        return {"headline": None}
    unit = unit_of(summary)
    verdict = compared.verdict(unit=unit)
    if not compared.entries:
        return {"headline": _plain(compared.own, "Mean", unit), "spread": _spread(compared.own, known)}
    own, best = compared.own, list(compared.entries[:LISTED])
    if compared.is_candidate:
        best = sorted([own, *best], key=lambda entry: -entry.mean)[:LISTED]
    first = compared.leaders[0] if compared.leaders else own
    # The verdict takes the place of the caption, unless the caption, the first bar and the change say the same.
    text = "" if verdict.name else verdict.text
    headline = _plain(first, "" if text else LABELS[verdict.kind], unit)
    return {"verdict": text, **_changes(compared, best, headline)}


def _plain(entry: Entry, caption: str, unit: str) -> Headline:
    return Headline(caption=caption, number=number(entry.mean), unit=unit, error=number(entry.error))


def _changes(compared: Compared, best: Sequence[Entry], headline: Headline) -> dict[str, Any]:
    """Return a headline and the best entries with their changes, or means of actors and without a percentage."""
    changes = [change for entry in best if (change := compared.change_of(entry)) is not None]
    if compared.is_candidate or len(changes) < len(best):
        return {"headline": headline, "bars": _means(best)}
    largest = max(map(abs, changes)) or 1.0
    bars = [
        Bar(
            name=entry.name,
            value=percent(change, compared.margin_of(entry)),
            kind=compared.kind_of(entry),
            width=abs(change) / largest,
        )
        for entry, change in zip(best, changes, strict=True)
    ]
    if not compared.leaders:
        return {"headline": replace(headline, explanation="Baseline"), "bars": bars}
    first = compared.leaders[0]
    change = compared.change_of(first)
    difference = "" if change is None else percent_with_margin(change, compared.margin_of(first))
    headline = replace(headline, difference=difference, explanation="over baseline", kind=GAIN)
    return {"headline": headline, "bars": bars}


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
    notes = [count] if (count := count_in(summary)) else []
    notes += ["Ended early"] if summary.get("partial") else []
    return notes + ([f"Build {job.build.simc_version}"] if job.build else [])


def _fight(fight: Fight) -> str:
    """Return the fight as "Patchwerk · 1 target · 5:00"."""
    parts = [fight.style]
    parts += [f"{fight.targets:,} target{'s' if fight.targets != 1 else ''}"] if fight.targets else []
    parts += ["{}:{:02}".format(*divmod(round(min(fight.length, 86_400)), 60))] if fight.length else []
    return " · ".join(filter(None, parts))
