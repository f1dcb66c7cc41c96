"""The headline: the answer in one look, and the facts of the fight."""

import math
from dataclasses import dataclass

from dashboard.results.baseline import Compared
from dashboard.results.strip import Figures, Strip, strips
from jobs.models import Job
from jobs.results.details import Actor, Fight
from jobs.results.rankings import Entry

VARIANT, ACTOR = "variant", "actor"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One number with its strip. `difference` is in percent of the baseline, None for the baseline itself."""

    label: str
    name: str
    figures: Figures
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
    own = _figures(baseline.entry, main)
    if not entries:
        return [Reading(label="Damage per second", name="", figures=own, strip=strips([own])[0])]
    is_listed = entries[0] is baseline.entry and len(entries) > 1
    best = entries[1] if is_listed else entries[0]
    # Variants are compared with the baseline, but the first actor is an actor like the others.
    is_best = is_listed or (noun == ACTOR and baseline.entry.mean >= best.mean)
    found = _figures(best, main)
    best_strip, own_strip = strips([found, own])
    other = Reading(
        label=f"Best other {noun}" if is_best else f"Best {noun}",
        name=best.name,
        figures=found,
        strip=best_strip,
        kind=baseline.kind_of(best),
        difference=baseline.change_of(best),
        gain=best.mean - baseline.entry.mean,
    )
    is_best_actor = is_best and noun == ACTOR
    label = f"Best {noun} (baseline)" if is_best_actor else "Baseline"
    own_reading = Reading(label=label, name=baseline.entry.name, figures=own, strip=own_strip)
    return [own_reading, other] if is_best_actor else [other, own_reading]


def _figures(entry: Entry, main: Actor | None) -> Figures:
    """Return an entry's figures. Only the main actor, which has number 0, has a median."""
    is_main = entry.number == 0 and main is not None and main.dps is not None
    median = main.dps.median if is_main and main and main.dps else None
    return Figures(mean=entry.mean, error=entry.error, low=entry.low, high=entry.high, median=median)


def facts(job: Job, fight: Fight | None, *, iterations: int | None, variants: int) -> list[tuple[str, str]]:
    """Return the facts of the fight with their labels, without those that are unknown."""
    fight = fight or Fight()
    iterations = iterations or fight.iterations
    build = job.build
    found = [
        ("Fight", _fight(fight)),
        ("Length", _length(fight)),
        ("Iterations", f"{iterations:,}" if iterations else ""),
        ("Target error", f"{fight.target_error:g} %" if fight.target_error else ""),
        ("Variants", f"{variants:,}" if variants else ""),
        ("Run time", duration(job.sim_duration_ms / 1000) if job.sim_duration_ms else ""),
        ("Build", build.simc_version if build else ""),
        ("Game data", fight.game_version or (build.wow_version if build else "")),
    ]
    return [(label, text) for label, text in found if text]


def _fight(fight: Fight) -> str:
    """Return the style of a fight and its targets, for example "Patchwerk, 1 target"."""
    targets = f"{fight.targets:,} target{'' if fight.targets == 1 else 's'}" if fight.targets else ""
    return ", ".join(part for part in (fight.style, targets) if part)


def _length(fight: Fight) -> str:
    """Return the length of a fight, for example "5:00 ± 20 %"."""
    if not fight.length:
        return ""
    variation = f" ± {fight.variation * 100:g} %" if fight.variation else ""
    return f"{clock(fight.length)}{variation}"


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
