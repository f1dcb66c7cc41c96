"""Plots of an actor: one chart for each stat, all with the same axes, and a table of the values."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.results.damage_chart import short
from dashboard.results.scale import WIDTH, Label, Scale, rounded
from jobs.results.details import Plot, PlotPoint

HEIGHT = 200
MAX_CURVES = 12
# Of the table
MAX_ROWS = 50
# Labels of each axis
ROWS, COLUMNS = 4, 4


@dataclass(frozen=True, kw_only=True)
class CurveView:
    """A curve in a picture of WIDTH by HEIGHT. `band` is its 95 % interval.

    `first` and `last` are its ends in words: the change and the mean.
    """

    name: str
    line: str
    band: str
    first: tuple[str, float]
    last: tuple[str, float]


@dataclass(frozen=True, kw_only=True)
class PlotsView:
    """The curves of an actor. `table` has a row for each change, with the mean and the error of each curve."""

    curves: Sequence[CurveView]
    left_out: int
    rows: Sequence[Label]
    columns: Sequence[Label]
    grid: str
    zero: str
    table: Sequence[tuple[str, Sequence[PlotPoint | None]]]
    is_sampled: bool


def plots_of(plots: Sequence[Plot]) -> PlotsView | None:
    """Return the plots for a page, or None if there are none."""
    found = [(plot, _known(plot)) for plot in plots]
    shown = [(plot, points) for plot, points in found if len(points) > 1][:MAX_CURVES]
    if not shown:
        return None
    changes = sorted({point.change or 0.0 for _, points in shown for point in points})
    ends = [
        (point.dps or 0.0) + side * (point.error or 0.0)
        for _, points in shown
        for point in points
        for side in (-1, 1)
    ]
    across = Scale(low=changes[0], high=changes[-1])
    up = rounded(min(ends), max(ends), count=ROWS)
    ticks = up.ticks(ROWS)
    step = -(-len(changes) // MAX_ROWS)
    return PlotsView(
        curves=[_curve(plot, points, across, up) for plot, points in shown],
        left_out=sum(len(points) > 1 for _, points in found) - len(shown),
        rows=[Label(text=short(tick.value), at=f"{100 - up.at(tick.value) * 100 / WIDTH:g}%") for tick in ticks],
        columns=_columns(across),
        grid="".join(f"M0 {_y(up, tick.value):g}H{WIDTH}" for tick in ticks),
        zero=f"M{across.at(0.0)} 0V{HEIGHT}" if across.contains(0.0) else "",
        table=_table([points for _, points in shown], changes[::step]),
        is_sampled=step > 1,
    )


def _known(plot: Plot) -> list[PlotPoint]:
    return [point for point in plot.points if point.change is not None and point.dps is not None]


def _curve(plot: Plot, points: Sequence[PlotPoint], across: Scale, up: Scale) -> CurveView:
    def path(side: int) -> list[str]:
        return [
            f"{across.at(point.change or 0.0)} {_y(up, (point.dps or 0.0) + side * (point.error or 0.0)):g}"
            for point in points
        ]

    first, last = points[0], points[-1]
    return CurveView(
        name=plot.name or plot.stat,
        line=f"M{'L'.join(path(0))}",
        band=f"M{'L'.join([*path(1), *reversed(path(-1))])}z",
        first=(_signed(first.change or 0.0), first.dps or 0.0),
        last=(_signed(last.change or 0.0), last.dps or 0.0),
    )


def _y(up: Scale, value: float) -> float:
    """Return the distance of a value from the top of the picture."""
    return round(HEIGHT - up.at(value) * HEIGHT / WIDTH, 1)


def _columns(across: Scale) -> list[Label]:
    """Return the labels of the changes. The first and the last one stay inside the picture."""
    return [
        Label(
            text=_signed(tick.value),
            at=tick.at,
            anchor="start"
            if across.part(tick.value) < 0.03
            else "end"
            if across.part(tick.value) > 0.97
            else "middle",
        )
        for tick in across.ticks(COLUMNS)
    ]


def _signed(change: float) -> str:
    """Return a change of a stat with its sign."""
    return f"{change:+,.10g}".replace("-", "\N{MINUS SIGN}") if change else "0"


def _table(
    curves: Sequence[Sequence[PlotPoint]], changes: Sequence[float]
) -> list[tuple[str, Sequence[PlotPoint | None]]]:
    by_change = [{point.change: point for point in points} for points in curves]
    return [(_signed(change), [points.get(change) for points in by_change]) for change in changes]
