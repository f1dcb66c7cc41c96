"""Damage over time as an area, with its axes and a table of values."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.results.headline import clock
from dashboard.results.scale import WIDTH, Label, Scale, rounded
from jobs.results.details import Timeline

HEIGHT = 200
MAX_POINTS = 400
ROWS = 4
# Steps of the time axis and of the table, in seconds
SECONDS = (1, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 3600)


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
    # Means of consecutive values. Negative damage is zero.
    size = -(-len(timeline.values) // MAX_POINTS)
    values = _means([max(value, 0.0) for value in timeline.values], size)
    step = timeline.step * size
    across = Scale(low=0.0, high=step * len(values))
    mean = mean or sum(timeline.values) / len(timeline.values)
    up = rounded(0.0, max(*values, mean), count=ROWS)
    points = [(across.at((number + 0.5) * step), _y(up, value)) for number, value in enumerate(values)]
    line = "L".join(f"{x} {y:g}" for x, y in points)
    peak = max(range(len(values)), key=values.__getitem__)
    ticks = up.ticks(ROWS)
    # The smallest step of the time axis with at most eight labels
    interval = next((float(step) for step in SECONDS if across.high / step <= 8), across.high / 8)
    # The table has half an axis step in each row.
    row = max(1, round(interval / 2 / timeline.step))
    return DamageChart(
        line=f"M{line}",
        area=f"M{points[0][0]} {HEIGHT}L{line}V{HEIGHT}z",
        grid="".join(f"M0 {_y(up, tick.value):g}H{WIDTH}" for tick in ticks),
        mean_y=_y(up, mean),
        mean=mean,
        peak=values[peak],
        peak_at=clock(peak * step),
        interval=step,
        rows=[Label(text=short(tick.value), at=f"{100 - up.at(tick.value) * 100 / WIDTH:g}%") for tick in ticks],
        columns=_columns(across, interval),
        values=[(clock(n * row * timeline.step), value) for n, value in enumerate(_means(timeline.values, row))],
    )


def _means(values: Sequence[float], size: int) -> list[float]:
    chunks = [values[start : start + size] for start in range(0, len(values), size)]
    return [sum(chunk) / len(chunk) for chunk in chunks]


def _y(up: Scale, value: float) -> float:
    """Return the distance of a value from the top of the picture."""
    return round(HEIGHT - up.at(value) * HEIGHT / WIDTH, 1)


def _columns(across: Scale, interval: float) -> list[Label]:
    """Return the labels of the time axis. The first and the last one stay inside the picture."""
    labels = []
    for number in range(int(across.high / interval + 1e-9) + 1):
        position = across.at(number * interval)
        anchor = "start" if not position else "end" if position > WIDTH * 0.97 else "middle"
        labels.append(Label(text=clock(number * interval), at=across.percent(number * interval), anchor=anchor))
    return labels


def short(value: float) -> str:
    """Return a number for an axis, for example "25k"."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:,.4g}{unit}"
    return f"{value:g}"
