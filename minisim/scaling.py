"""Scale factors and plots: the baseline again, with more or less of one stat.

See `docs/reference/simulator-command-line.md#stat-weights-and-plots`.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from minisim.actor import Actor
from minisim.settings import Settings
from minisim.sheet import RATINGS

DELTA = 300.0
# The abbreviation of each rating; the primary stat depends on the class.
_ABBREVIATIONS = dict(zip(("Crit", "Haste", "Mastery", "Vers"), RATINGS, strict=True))
_NAMES = {
    "intellect": "Int", "agility": "Agi", "strength": "Str", "crit_rating": "Crit", "haste_rating": "Haste",
    "mastery_rating": "Mastery", "versatility_rating": "Vers", "versatility": "Vers",
    **{name.lower(): name for name in ("Int", "Agi", "Str", *_ABBREVIATIONS)},
}  # fmt: skip
_PRIMARY = {
    **dict.fromkeys(("death_knight", "paladin", "warrior"), "Str"),
    **dict.fromkeys(("demon_hunter", "druid", "hunter", "monk", "rogue", "shaman"), "Agi"),
}


@dataclass(frozen=True, slots=True)
class Change:
    """More or less of a stat, by its abbreviation."""

    stat: str
    points: float

    @property
    def label(self) -> str:
        """Return the label of its phase in a plot."""
        return f"{self.points:g} {self.stat}"

    def applied(self, actor: Actor, primary: float, ratings: dict[str, float]) -> tuple[float, dict[str, float]]:
        """Return an actor's primary stat and ratings with the change. An actor may not have the stat."""
        rating = _ABBREVIATIONS.get(self.stat)
        if rating:
            return primary, {**ratings, rating: max(0.0, ratings[rating] + self.points)}
        return (primary + self.points if self.stat == primary_of(actor) else primary), ratings


@dataclass(frozen=True, slots=True)
class Mean:
    """The DPS of an actor in one simulation; `error` is half a confidence interval."""

    mean: float
    error: float


# Simulates the players with a change and returns their means by name. Raises Stopped.
Simulate = Callable[[str, Settings, Change], dict[str, Mean]]


@dataclass(slots=True)
class Scaling:
    """The factors of each actor, the changes of the stats, and the curves of each actor, as reports have them."""

    factors: dict[str, dict[str, float]] = field(default_factory=dict)
    deltas: dict[str, float] = field(default_factory=dict)
    curves: dict[str, dict[str, list[tuple[float, Mean]]]] = field(default_factory=dict)


def primary_of(actor: Actor) -> str:
    """Return the abbreviation of an actor's primary stat."""
    return _PRIMARY.get(actor.kind, "Int")


def scales_with(actor: Actor) -> tuple[str, ...]:
    """Return the abbreviations of an actor's stats."""
    return (primary_of(actor), *_ABBREVIATIONS)


def phases(players: list[Actor], settings: Settings) -> int:
    """Return how many simulations scale factors and plots take."""
    weights = len(_weighed(players, settings)) * (2 if settings.center_scale_delta else 1)
    return weights + sum(points != 0 for _ in _plotted(players, settings) for points in _points(settings))


class Stopped(Exception):
    """The run was stopped before all simulations had ended."""


def scaling_of(
    players: list[Actor], settings: Settings, baseline: dict[str, Mean], simulate: Simulate
) -> Scaling | None:
    """Simulate scale factors, then plots. Returns None if the run was stopped."""
    found = Scaling()
    try:
        for stat in _weighed(players, settings):
            _weigh(stat, players, settings, baseline, simulate, found)
        for stat in _plotted(players, settings):
            _plot(stat, players, settings, baseline, simulate, found)
    except Stopped:
        return None
    return found


def _weigh(
    stat: str,
    players: list[Actor],
    settings: Settings,
    baseline: dict[str, Mean],
    simulate: Simulate,
    found: Scaling,
) -> None:
    """Add the factors of a stat."""
    found.deltas[stat] = delta = DELTA * settings.scale_delta_multiplier
    half = delta / 2 if settings.center_scale_delta else delta
    more, less = simulate(stat, settings, Change(stat, half)), baseline
    if settings.center_scale_delta:
        less = simulate(f"Ref {stat}", settings, Change(stat, -half))
    for player in players:
        if stat in scales_with(player):
            weight = (more[player.name].mean - less[player.name].mean) / delta
            found.factors.setdefault(player.name, {})[stat] = weight


def _plot(
    stat: str,
    players: list[Actor],
    settings: Settings,
    baseline: dict[str, Mean],
    simulate: Simulate,
    found: Scaling,
) -> None:
    """Add the curves of a stat."""
    own = replace(
        settings,
        iterations=settings.dps_plot_iterations if settings.dps_plot_iterations > 0 else settings.iterations,
        target_error=settings.dps_plot_target_error or settings.target_error,
    )
    for points in _points(settings):
        change = Change(stat, points)
        means = simulate(change.label, own, change) if points else baseline
        for player in players:
            if stat in scales_with(player):
                curve = found.curves.setdefault(player.name, {}).setdefault(stat, [])
                curve.append((points, means[player.name]))


def _weighed(players: list[Actor], settings: Settings) -> list[str]:
    if not settings.calculate_scale_factors:
        return []
    return list(_chosen(players, settings.scale_only))


def _plotted(players: list[Actor], settings: Settings) -> list[str]:
    return list(_chosen(players, settings.dps_plot_stat)) if settings.dps_plot_stat else []


def _chosen(players: list[Actor], listed: str) -> Iterator[str]:
    """Yield the stats in a list that a player has, or all of them if the list is empty."""
    names = {_NAMES.get(name.lower()) for name in re.split("[,:;/|]", listed)}
    for stat in ("Str", "Agi", "Int", *_ABBREVIATIONS):
        if (not listed or stat in names) and any(stat in scales_with(player) for player in players):
            yield stat


def _points(settings: Settings) -> list[float]:
    count = settings.dps_plot_points
    if settings.dps_plot_positive:
        first, last = 0, count
    elif settings.dps_plot_negative:
        first, last = -count, 0
    else:
        first, last = -(count // 2), count // 2
    return [number * settings.dps_plot_step for number in range(first, last + 1)]
