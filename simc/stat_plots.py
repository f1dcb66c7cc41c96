"""Plots of a report: the DPS of each actor with more or less of a stat.

See `docs/reference/simulator-command-line.md#stat-weights-and-plots`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from simc import report_values as values
from simc import stats
from simc.json_stream import WHOLE, Members, Shape
from simc.profiles.plots import MAX_POINTS
from simc.report_values import Bounded, clean, kept_by, known
from simc.stat_weights import MAX_STATS

# Of one curve, with the point without a change, and of all curves of a report.
MAX_CURVE_POINTS = MAX_POINTS + 1
MAX_ALL_POINTS = 10_000


class Point(NamedTuple):
    """A point of a curve: the change of the stat, and the mean with its margin of error, if it is known."""

    change: float
    dps: float
    error: float | None


class Curve(Bounded):
    """The points of a stat."""

    entry_shape: Shape = dict.fromkeys(("rating", "dps", "dps-error"))

    def __init__(self) -> None:
        self.kept: list[Point] = []

    def take(self, entry: Any) -> None:
        point = values.mapping(entry)
        change, dps = values.signed(point.get("rating")), values.number(point.get("dps"))
        if change is not None and dps is not None and len(self.kept) < MAX_CURVE_POINTS:
            self.kept.append(Point(change, dps, values.number(point.get("dps-error"))))


class _NamedCurves(Bounded):
    """Curves by the stats' abbreviations. Reports have an object with one member for each curve."""

    entry_shape: Shape = Curve

    def __init__(self) -> None:
        self.kept: dict[str, list[Point]] = {}

    def take(self, member: tuple[str, Any]) -> None:
        name, points = values.text(member[0]), kept_by(member[1], Curve)
        # A curve needs two points.
        if name and len(points) > 1 and len(self.kept) < MAX_STATS:
            self.kept.setdefault(name, points)


class _Curves(_NamedCurves):
    """All curves of an actor."""

    entry_shape: Shape = Members(_NamedCurves)

    def take(self, entry: Any) -> None:
        for member in kept_by(entry, _NamedCurves).items():
            if len(self.kept) < MAX_STATS:
                self.kept.setdefault(*member)


class Plots(Bounded):
    """The curves of each actor, by the hash of its name, because names can be long. Pets have no points."""

    entry_shape: Shape = {"name": WHOLE, "data": _Curves}

    def __init__(self) -> None:
        self.kept: dict[int, dict[str, list[Point]]] = {}
        self._points = 0

    def take(self, entry: Any) -> None:
        name, curves = values.mapping(entry).get("name"), kept_by(values.mapping(entry).get("data"), _Curves)
        self._points += sum(map(len, curves.values()))
        if curves and isinstance(name, str) and self._points <= MAX_ALL_POINTS:
            self.kept.setdefault(hash(clean(name)), curves)


def plots_of(found: object, *, name: str) -> list[dict[str, Any]]:
    """Return the curves of the actor with this name, in the report's order."""
    curves = kept_by(found, Plots).get(hash(name), {})
    return [
        {"stat": stat, "name": stats.title_of(stat), "points": _listed(points)} for stat, points in curves.items()
    ]


def _listed(points: Sequence[Point]) -> list[dict[str, float]]:
    ordered = sorted(points, key=lambda point: point.change)
    return [known(change=point.change, dps=point.dps, error=point.error) for point in ordered]
