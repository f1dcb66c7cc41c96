"""Damage over time as an area, with its axes and a table of values."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.results.headline import clock
from dashboard.results.scale import WIDTH, Scale, rounded
from jobs.results.details import Timeline

HEIGHT = 200
MAX_POINTS = 400
ROWS = 4
# Steps of the time axis and of the table, in seconds
SECONDS = (1, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 3600)


@dataclass(frozen=True, kw_only=True)
class Label:
    """A label of an axis, and its position in percent."""

    text: str
    at: str
    anchor: str = "middle"


@dataclass(frozen=True, kw_only=True)
class DamageChart:
    """The area of mean damage per second in a picture of WIDTH by HEIGHT. `values` are (time, damage) pairs."""

    line: str
    area: str
    grid: str
    mean_y: float
    mean: float
    peak: float
    peak_at: str
    seconds: float
    interval: float
    rows: Sequence[Label]
    columns: Sequence[Label]
    values: Sequence[tuple[str, float]]


def chart_of(timeline: Timeline | None, *, mean: float | None) -> DamageChart | None:
    """Return the chart of a timeline, or None without one or without damage.

    `mean` is the actor's damage per second over all fights, if it is known.
    """
    if timeline is None or not any(value > 0 for value in timeline.values):
        return None
    values, step = _reduced(timeline)
    across = Scale(low=0.0, high=step * len(values))
    mean = mean or sum(timeline.values) / len(timeline.values)
    up = rounded(0.0, max(*values, mean), count=ROWS)
    points = [(across.at((number + 0.5) * step), _y(up, value)) for number, value in enumerate(values)]
    line = "L".join(f"{x} {y:g}" for x, y in points)
    peak = max(range(len(values)), key=values.__getitem__)
    interval = _interval(across.high)
    return DamageChart(
        line=f"M{line}",
        area=f"M{points[0][0]} {HEIGHT}L{line}V{HEIGHT}z",
        grid="".join(f"M0 {_y(up, tick.value):g}H{WIDTH}" for tick in up.ticks(ROWS)),
        mean_y=_y(up, mean),
        mean=mean,
        peak=values[peak],
        peak_at=clock(peak * step),
        seconds=across.high,
        interval=step,
        rows=[Label(text=short(tick.value), at=_down(up, tick.value)) for tick in up.ticks(ROWS)],
        columns=_columns(across, interval),
        values=_table(timeline, interval),
    )


def _reduced(timeline: Timeline) -> tuple[list[float], float]:
    """Return at most MAX_POINTS means of consecutive values, and their step in seconds. Negative damage is zero."""
    size = -(-len(timeline.values) // MAX_POINTS)
    values = [max(value, 0.0) for value in timeline.values]
    chunks = [values[start : start + size] for start in range(0, len(values), size)]
    return [sum(chunk) / len(chunk) for chunk in chunks], timeline.step * size


def _y(up: Scale, value: float) -> float:
    """Return the distance of a value from the top of the picture."""
    return round(HEIGHT - up.at(value) * HEIGHT / WIDTH, 1)


def _down(up: Scale, value: float) -> str:
    return f"{100 - up.at(value) * 100 / WIDTH:g}%"


def _interval(seconds: float) -> float:
    """Return the step of the time axis: the smallest one with at most eight labels."""
    return next((float(step) for step in SECONDS if seconds / step <= 8), seconds / 8)


def _columns(across: Scale, interval: float) -> list[Label]:
    """Return the labels of the time axis. The first and the last one stay inside the picture."""
    times = [number * interval for number in range(int(across.high / interval + 1e-9) + 1)]
    return [Label(text=clock(time), at=across.percent(time), anchor=_anchor(across.at(time))) for time in times]


def _anchor(position: int) -> str:
    if not position:
        return "start"
    return "end" if position > WIDTH * 0.97 else "middle"


def _table(timeline: Timeline, interval: float) -> list[tuple[str, float]]:
    """Return the mean damage of half an axis step each, as the start of that time and the damage."""
    size = max(1, round(interval / 2 / timeline.step))
    chunks = [(start, timeline.values[start : start + size]) for start in range(0, len(timeline.values), size)]
    return [(clock(start * timeline.step), sum(chunk) / len(chunk)) for start, chunk in chunks]


def short(value: float) -> str:
    """Return a number for an axis, for example "25k"."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:,.4g}{unit}"
    return f"{value:g}"
