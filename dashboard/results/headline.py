"""The headline: the answer in one look, and the facts of the fight.

A strip shows a mean with its interval between the smallest and the largest value of all iterations.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.results.scale import Scale
from jobs.enums import VerdictKind
from jobs.models import Job
from jobs.results.details import Actor, Fight
from jobs.results.rankings import Entry
from jobs.results.verdicts import Compared, Verdict, percent_with_margin

# Room for the numbers beside the ends of a strip, as a part of the width
MARGIN = 0.16
# In thousandths of the width. A narrow interval stays visible.
LEAST_WIDTH = 6


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A mean with its error, and what else is known about all iterations."""

    mean: float
    error: float
    low: float | None = None
    high: float | None = None
    median: float | None = None

    @property
    def bottom(self) -> float:
        return self.mean - self.error

    @property
    def top(self) -> float:
        return self.mean + self.error


@dataclass(frozen=True, kw_only=True)
class Strip:
    """Positions in percent of the width; empty if the number is unknown."""

    low: str
    high: str
    width: str
    start: str
    interval: str
    median: str


def strips(spreads: Sequence[Spread]) -> list[Strip]:
    """Return strips on one axis."""
    known = [(each.low, each.high, each.bottom, each.top) for each in spreads]
    ends = [end for each in known for end in each if end is not None]
    # Without a spread, the strip is in the middle.
    room = (max(ends) - min(ends)) * MARGIN / (1 - 2 * MARGIN) or 1.0
    axis = Scale(low=min(ends) - room, high=max(ends) + room)
    return [_strip(spread, axis) for spread in spreads]


def _strip(spread: Spread, axis: Scale) -> Strip:
    ends = (spread.low, spread.high, spread.median)
    low, high, median = ("" if end is None else axis.percent(end) for end in ends)
    start, end = axis.at(spread.bottom), axis.at(spread.top)
    width = max(end - start, LEAST_WIDTH)
    return Strip(
        low=low,
        high=high,
        width=f"{(axis.at(spread.high or 0) - axis.at(spread.low or 0)) / 10:g}%" if low and high else "",
        start=f"{(start + end - width) / 2 / 10:g}%",
        interval=f"{width / 10:g}%",
        median=median,
    )


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One number with its strip. `change` and `gain` are compared with the baseline.

    `name` and `change` are empty if the verdict above says them, and `kind` for the baseline itself.
    """

    label: str
    name: str
    figures: Spread
    strip: Strip
    kind: str = ""
    change: str = ""
    gain: float = 0.0

    @property
    def relative_error(self) -> float | None:
        """Return the margin of error in percent of the mean, None if it cannot be calculated."""
        return relative_error(self.figures.mean, self.figures.error)


def relative_error(mean: float, error: float) -> float | None:
    """Return a margin of error in percent of its mean, None if it cannot be calculated."""
    relative = abs(error / mean * 100) if mean else math.inf
    return relative if math.isfinite(relative) else None


LABELS = {
    VerdictKind.BEST: "Best variant",
    VerdictKind.UPGRADE: "Clear upgrade",
    VerdictKind.TIED: "Highest of those tied for best",
    VerdictKind.BEST_ACTOR: "Best actor",
    VerdictKind.TIED_ACTORS: "Highest of those tied for best",
}


def readings(compared: Compared, verdict: Verdict, main: Actor | None) -> list[Reading]:
    """Return the best entry above the baseline, or the baseline first if no entry is clearly better."""
    baseline = compared.baseline
    if not compared.entries:
        own = _spread(baseline, main)
        return [Reading(label="Damage per second", name="", figures=own, strip=strips([own])[0])]
    first = compared.leaders[0] if compared.leaders else baseline
    others = [entry for entry in compared.entries if entry is not baseline]
    second = baseline if first is not baseline or not others else others[0]
    spreads = [_spread(entry, main) for entry in (first, second)]
    first_label = LABELS.get(verdict.kind, "Baseline")
    if first is baseline and compared.leaders:
        first_label += " (baseline)"
    noun = "actor" if compared.is_candidate else "variant"
    labels = (first_label, "Baseline" if second is baseline else f"Highest other {noun}")
    return [
        _reading(compared, entry, figures, strip, label=label, is_named=not (verdict.name and entry is first))
        for entry, figures, strip, label in zip((first, second), spreads, strips(spreads), labels, strict=True)
    ]


def _reading(
    compared: Compared, entry: Entry, figures: Spread, strip: Strip, *, label: str, is_named: bool
) -> Reading:
    change = compared.change_of(entry) if is_named else None
    return Reading(
        label=label,
        name=entry.name if is_named else "",
        figures=figures,
        strip=strip,
        kind=compared.kind_of(entry),
        change="" if change is None else percent_with_margin(change, compared.margin_of(entry)),
        gain=entry.mean - compared.baseline.mean,
    )


def _spread(entry: Entry, main: Actor | None) -> Spread:
    """Return an entry's spread. Only the main actor, which has number 0, has a median."""
    median = main.dps.median if entry.number == 0 and main and main.dps else None
    return Spread(mean=entry.mean, error=entry.error, low=entry.low, high=entry.high, median=median)


def facts(
    job: Job, fight: Fight | None, *, own: Entry | None, iterations: int | None, variants: int
) -> list[tuple[str, str]]:
    """Return the facts of the fight with their labels, without those that are unknown.

    `own` is the result of the profile itself, whose error is the one that was reached.
    """
    fight = fight or Fight()
    iterations = iterations or fight.iterations
    build = job.build
    targets = f"{fight.targets:,} target{'' if fight.targets == 1 else 's'}" if fight.targets else ""
    variation = f" ± {fight.variation * 100:g} %" if fight.variation else ""
    found = [
        ("Fight", ", ".join(filter(None, (fight.style, targets)))),
        ("Length", f"{clock(fight.length)}{variation}" if fight.length else ""),
        ("Iterations", f"{iterations:,}" if iterations else ""),
        ("Error", _error(own, fight.target_error)),
        ("Variants", f"{variants:,}" if variants else ""),
        ("Run time", duration(job.sim_duration_ms / 1000) if job.sim_duration_ms else ""),
        ("Build", build.simc_version if build else ""),
        ("Game data", fight.game_version or (build.wow_version if build else "")),
    ]
    return [(label, text) for label, text in found if text]


def _error(own: Entry | None, target: float | None) -> str:
    """Return the error that was reached and the one that was requested, as far as they are known."""
    reached = relative_error(own.mean, own.error) if own and own.error else None
    asked = f"target {target:g} %" if target else ""
    if reached is None:
        return asked
    return f"± {reached:{'.2g' if reached > 0.1 else '.1g'}} %{f' ({asked})' if asked else ''}"


def clock(seconds: float) -> str:
    """Return minutes and seconds, for example "5:00"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    """Return a duration in words, for example "3 min 17 s"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    hours, rest = divmod(round(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
