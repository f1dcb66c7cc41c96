"""The parts of a JSON report that its readers use, and the summary of a result."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from simc.messages import MAX_KEPT

# Beyond all simulated numbers. Neither a product nor the square of a quotient overflows.
LARGEST_NUMBER = 1e30
# Smaller numbers are zero, so that quotients stay finite.
SMALLEST_NUMBER = 1e-30
# No simulation has more; larger figures would overflow.
MAX_FIGHTS = 10**12
# With fewer fights, an estimated error can be close to 0 by chance. The simulator checks the error after a hundred
# fights, less the first one of each thread.
MIN_FIGHTS = 80
MAX_ERRORS = 20
# Standard errors in half of a 95 % confidence interval
CONFIDENCE = 1.96
# In all names of a list: more than a profile can contain.
MAX_NAME_CHARACTERS = 8_000_000
_NAME_LENGTH = 100


class BrokenReport(Exception):
    """The report cannot be used; `reason` says why, with the subject "it"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Statistics:
    """One metric over all iterations, in the metric's unit; zeros if nothing was collected."""

    mean: float
    mean_stddev: float  # The standard error of the mean.
    stddev: float
    min: float
    max: float

    @property
    def mean_error(self) -> float:
        """Return half the width of the 95 % confidence interval, regardless of the profile's `confidence`."""
        return CONFIDENCE * self.mean_stddev


def fights_of(stddev: float, error: float) -> float:
    """Return the number of fights n, from error = stddev / √n; 0 if unknown."""
    return min(stddev / error, math.sqrt(MAX_FIGHTS)) ** 2 if error > 0 else 0.0


def combined(first: Statistics, second: Statistics) -> Statistics:
    """Return the statistics of the fights of both, or the first if one's number of fights is unknown."""
    fights = [fights_of(entry.stddev, entry.mean_stddev) for entry in (first, second)]
    if not all(fights):
        return first
    total = sum(fights)
    mean = (fights[0] * first.mean + fights[1] * second.mean) / total
    squares = sum(
        count * (entry.stddev**2 + (entry.mean - mean) ** 2)
        for count, entry in zip(fights, (first, second), strict=True)
    )
    stddev = math.sqrt(squares / total)
    return Statistics(
        mean=mean,
        mean_stddev=stddev / math.sqrt(total),
        stddev=stddev,
        min=min(first.min, second.min),
        max=max(first.max, second.max),
    )


def has_few_fights(stddev: float, error: float) -> bool:
    """Return whether there were too few fights to estimate the error of a mean from its standard error."""
    return 0 < fights_of(stddev, error) < MIN_FIGHTS


@dataclass(frozen=True, slots=True)
class Player:
    """An actor of the profile, in the profile's order; only the first ones have talents and gear."""

    name: str
    dps: Statistics
    talents: str = ""
    gear: tuple[dict[str, Any], ...] = ()  # Items in the layout of the summary.
    # Whether at least one iteration finished. A mean of 0 does not tell: an actor may do no damage.
    reached: bool = True
    fights: int = 0  # The fights that were collected; 0 if the report does not say.
    # The metric that the target error applies to; None if the report does not say.
    target: Statistics | None = None


@dataclass(frozen=True, slots=True)
class Profileset:
    """A profileset's result, in the first metric that the profile names."""

    name: str
    statistics: Statistics
    stage: int
    iterations: int | None = None  # Its own finished iterations; None if the report does not say.


def best_first(profilesets: Iterable[Profileset]) -> list[Profileset]:
    """Return profilesets in the order of every ranking. Equal means are ordered by name."""
    return sorted(profilesets, key=lambda entry: (-entry.statistics.mean, entry.name))


@dataclass(frozen=True, slots=True)
class NotReached:
    """How many actors and profilesets have no result because the run was stopped early."""

    actors: int
    profilesets: int
    baseline: bool  # Whether the profile's first actor is one of them.


@dataclass(frozen=True, slots=True)
class Report:
    """One report, with at least one player."""

    players: tuple[Player, ...]
    profilesets: tuple[Profileset, ...]
    raid_dps: Statistics
    iterations: int  # Finished iterations of the baseline.
    # Messages that the simulator grades as severe. Versions before August 2025 have no grades.
    errors: tuple[str, ...]
    warnings: tuple[str, ...] = ()  # The simulator's warnings.
    # The players and profilesets that were left out because the run was stopped early.
    not_reached: "NotReached | None" = None
    details: Mapping[str, Any] | None = None  # The document of `simc/report_details.py`, None if it was not read.
    confidence: float = CONFIDENCE  # How many standard errors the simulator's target error is.

    def only_reached(self, *, profilesets: int) -> "Report":
        """Return the report of a stopped run without the entries that finished no iteration.

        `profilesets` is the expected number; 0 if complete reports leave out some too.
        """
        reached = tuple(player for player in self.players if player.reached)
        baseline = self.players[0]
        # If the baseline does no damage, reports leave out simulated profilesets too.
        does_nothing = baseline.reached and not baseline.dps.mean
        lacking = 0 if does_nothing else max(0, profilesets - len(self.profilesets))
        missed = NotReached(
            actors=len(self.players) - len(reached), profilesets=lacking, baseline=not baseline.reached
        )
        return replace(self, players=reached, not_reached=missed)

    def error_percent(self, player: Player) -> float | None:
        """Return the error of an actor as the simulator compares it with the target error; None if unknown."""
        return self.error_of(player.target or player.dps)

    def error_of(self, statistics: Statistics) -> float | None:
        """Return the error of a mean in percent, as the simulator compares it; None if unknown."""
        if statistics.mean <= 0 or statistics.mean_stddev <= 0:
            return None
        return 100 * self.confidence * statistics.mean_stddev / statistics.mean

    @property
    def baseline(self) -> Player | None:
        """Return the profile's first actor, or None if it was not reached."""
        return None if self.not_reached and self.not_reached.baseline else self.players[0]


def merged_report(first: Report, others: Iterable[Report]) -> Report:
    """Return the report of shard 0 with the profilesets of the other shards, and the messages of all.

    The profilesets of shard 0 are dropped, since they ran one iteration. The first one of each name is kept.
    """
    profilesets: dict[str, Profileset] = {}
    errors, warnings = dict.fromkeys(first.errors), dict.fromkeys(first.warnings)
    for report in others:
        for profileset in report.profilesets:
            profilesets.setdefault(profileset.name, profileset)
        errors |= dict.fromkeys(report.errors)
        warnings |= dict.fromkeys(report.warnings)
    return replace(
        first,
        profilesets=tuple(profilesets.values()),
        errors=tuple(errors)[:MAX_ERRORS],
        warnings=tuple(warnings)[:MAX_KEPT],
    )


def wrong_iterations(report: Report, *, expected: int, target_error: float, threads: int) -> str | None:
    """Return which profileset ran a wrong number of iterations, with the subject "it", or None.

    `expected` is the number that the profile asks for, which is the maximum if there is a target error. A
    profileset whose settings are lost runs a single iteration.
    """
    for profileset in report.profilesets:
        count = profileset.iterations
        if count is None or is_share(count, expected, threads=threads):
            continue
        enough = min(expected, 2) <= count if target_error else expected - threads <= count
        if not enough or not (target_error or count <= expected + threads):
            name = profileset.name[:_NAME_LENGTH]
            return f"its profileset {name!r} ran {count} iterations, not {expected}"
    return None


def is_share(count: int, expected: int, *, threads: int) -> bool:
    """Return whether a count is that of one thread, which a deterministic simulation reports for a profileset.

    Simulators do not collect each thread's first iteration.
    """
    return count > 1 and abs(count - expected / threads) <= threads


LISTED_RESULTS = 200


def summarise(
    report: Report, *, metric: Literal["dps", "raid_dps"], multistage: Mapping[str, Any], partial: bool
) -> dict[str, Any]:
    """Return the `summary` of a result, ready for JSON and jsonb (`docs/reference/api.md#result-summary`).

    `multistage` becomes `multiStage` unchanged. The main actor is the first actor. It is None if a profile has
    several actors and no profilesets, or if the first actor was not reached.
    """
    missed = report.not_reached
    several = len(report.players) + (missed.actors if missed else 0) > 1
    has_main_actor = report.baseline is not None and (not several or bool(report.profilesets))
    summary: dict[str, Any] = {
        "metric": metric,
        "mainActor": _main_actor(report, metric=metric) if has_main_actor else None,
        "multiStage": dict(multistage),
    }
    if several:
        listed = report.players[:LISTED_RESULTS]
        actors = [{"name": player.name, **_figures(player.dps)} for player in listed]
        summary["actors"] = {"count": len(report.players), "results": actors}
    if not multistage["enabled"]:
        summary["iterations"] = report.iterations
    if partial:
        summary["partial"] = True
    if missed and (missed.actors or missed.profilesets):
        summary["not_reached"] = {"actors": missed.actors, "profilesets": missed.profilesets}
    return summary


def _main_actor(report: Report, *, metric: Literal["dps", "raid_dps"]) -> dict[str, Any]:
    player = report.players[0]
    statistics = report.raid_dps if metric == "raid_dps" else player.dps
    actor: dict[str, Any] = {"name": player.name, **_figures(statistics)}
    if report.profilesets:
        ranking = best_first(report.profilesets)
        results = [
            {"name": entry.name, **_figures(entry.statistics), "stage": entry.stage}
            for entry in ranking[:LISTED_RESULTS]
        ]
        actor["profilesets"] = {"count": len(ranking), "results": results}
    if player.talents:
        actor["talents"] = player.talents
    if player.gear:
        actor["gear"] = list(player.gear)
    return actor


def _figures(statistics: Statistics) -> dict[str, float]:
    return {
        "mean": statistics.mean,
        "mean_error": statistics.mean_error,
        "mean_stddev": statistics.mean_stddev,
        "stddev": statistics.stddev,
        "min": statistics.min,
        "max": statistics.max,
    }
