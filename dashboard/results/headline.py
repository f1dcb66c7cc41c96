"""The headline: the answer in one look, and the facts of the fight.

A strip shows a mean with its interval between the smallest and the largest value of all iterations.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.results.scale import Scale
from jobs.models import Job
from jobs.results.details import Actor, Fight
from jobs.results.rankings import Entry
from jobs.results.verdicts import Compared

VARIANT, ACTOR = "variant", "actor"
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
    """One number with its strip. `difference` is in percent of the baseline, None for the baseline itself."""

    label: str
    name: str
    figures: Spread
    strip: Strip
    kind: str = ""
    difference: float | None = None
    gain: float = 0.0

    @property
    def relative_error(self) -> float | None:
        """Return the margin of error in percent of the mean, None if it cannot be calculated."""
        relative = abs(self.figures.error / self.figures.mean * 100) if self.figures.mean else math.inf
        return relative if math.isfinite(relative) else None


def readings(compared: Compared, main: Actor | None, *, noun: str) -> list[Reading]:
    """Return the best entry above the baseline, or the baseline alone without entries."""
    entries, baseline = compared.entries, compared.baseline
    own = _spread(baseline, main)
    if not entries:
        return [Reading(label="Damage per second", name="", figures=own, strip=strips([own])[0])]
    is_listed = entries[0] is baseline and len(entries) > 1
    best = entries[1] if is_listed else entries[0]
    # Variants are compared with the baseline, but the first actor is an actor like the others.
    is_best_actor = noun == ACTOR and (is_listed or baseline.mean >= best.mean)
    found = _spread(best, main)
    best_strip, own_strip = strips([found, own])
    other = Reading(
        label=f"Best other {noun}" if is_listed or is_best_actor else f"Best {noun}",
        name=best.name,
        figures=found,
        strip=best_strip,
        kind=compared.kind_of(best),
        difference=compared.change_of(best),
        gain=best.mean - baseline.mean,
    )
    label = f"Best {noun} (baseline)" if is_best_actor else "Baseline"
    own_reading = Reading(label=label, name=baseline.name, figures=own, strip=own_strip)
    return [own_reading, other] if is_best_actor else [other, own_reading]


def _spread(entry: Entry, main: Actor | None) -> Spread:
    """Return an entry's spread. Only the main actor, which has number 0, has a median."""
    median = main.dps.median if entry.number == 0 and main and main.dps else None
    return Spread(mean=entry.mean, error=entry.error, low=entry.low, high=entry.high, median=median)


def facts(job: Job, fight: Fight | None, *, iterations: int | None, variants: int) -> list[tuple[str, str]]:
    """Return the facts of the fight with their labels, without those that are unknown."""
    fight = fight or Fight()
    iterations = iterations or fight.iterations
    build = job.build
    targets = f"{fight.targets:,} target{'' if fight.targets == 1 else 's'}" if fight.targets else ""
    variation = f" ± {fight.variation * 100:g} %" if fight.variation else ""
    found = [
        ("Fight", ", ".join(filter(None, (fight.style, targets)))),
        ("Length", f"{clock(fight.length)}{variation}" if fight.length else ""),
        ("Iterations", f"{iterations:,}" if iterations else ""),
        ("Target error", f"{fight.target_error:g} %" if fight.target_error else ""),
        ("Variants", f"{variants:,}" if variants else ""),
        ("Run time", duration(job.sim_duration_ms / 1000) if job.sim_duration_ms else ""),
        ("Build", build.simc_version if build else ""),
        ("Game data", fight.game_version or (build.wow_version if build else "")),
    ]
    return [(label, text) for label, text in found if text]


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
