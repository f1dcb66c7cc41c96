"""Charts by day: bars of a value, and the line of a balance.

They are SVG that stretches, so positions are percentages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from dashboard.results import scale
from dashboard.results.scale import Label

# Width of a bar, as a fraction of the width of a day
BAR_WIDTH = 0.72
VALUES, DATES = 4, 4


def bars_by_day(days: Sequence[tuple[date, int]]) -> dict[str, Any]:
    """Return a chart with a bar per day and the ticks of its axis, in percent of its size.

    A value above 0 stays visible.
    """
    largest = max((value for _, value in days), default=0)
    axis = scale.rounded(0, largest, count=VALUES)
    ticks = [tick for tick in axis.ticks(VALUES) if tick.value and not tick.value % 1]
    step = 100 / (len(days) or 1)
    bars = []
    for number, (day, value) in enumerate(days):
        part = max(axis.part(value) * 100, 1.0) if value else 0.0
        x, width = f"{step * (number + (1 - BAR_WIDTH) / 2):.2f}%", f"{step * BAR_WIDTH:.2f}%"
        y, height = f"{100 - part:.2f}%", f"{part:.2f}%"
        bars.append({"day": day, "value": value, "x": x, "y": y, "width": width, "height": height})
    return {
        "bars": bars,
        "ticks": [{"value": tick.value, "y": f"{100 - axis.part(tick.value) * 100:.2f}%"} for tick in ticks],
        "largest": largest,
        "total": sum(value for _, value in days),
    }


@dataclass(frozen=True, kw_only=True)
class DayMark:
    """A day in a picture: the place of its value, and the part of the picture that shows it when pointed at."""

    day: date
    value: int
    x: str
    left: str
    width: str


@dataclass(frozen=True, kw_only=True)
class BalanceChart:
    """The picture of a balance: paths in a square of 100 by 100, and what is drawn above it."""

    line: str
    area: str
    days: Sequence[DayMark]
    values: Sequence[Label]
    dates: Sequence[Label]


def line_by_day(days: Sequence[tuple[date, int]]) -> BalanceChart | None:
    """Return a chart of the values at the ends of days, None if all are zero. Its axis begins at zero."""
    if not any(value for _, value in days):
        return None
    axis = scale.rounded(0.0, float(max(value for _, value in days)), count=VALUES)
    step = 100 / len(days)
    marks = [
        DayMark(
            day=day,
            value=value,
            x=f"{step * (number + 0.5):.2f}",
            left=f"{step * number:.2f}%",
            width=f"{step:.2f}%",
        )
        for number, (day, value) in enumerate(days)
    ]
    points = "L".join(f"{mark.x} {(1 - axis.part(mark.value)) * 100:.2f}" for mark in marks)
    every = -(-len(marks) // DATES)
    return BalanceChart(
        line=f"M{points}",
        area=f"M{marks[0].x} 100L{points}L{marks[-1].x} 100Z",
        days=marks,
        values=[
            Label(at=f"{(1 - axis.part(tick.value)) * 100:.2f}%", text=f"{tick.value:,.0f}")
            for tick in axis.ticks(VALUES)
        ],
        dates=[Label(at=f"{mark.x}%", text=f"{mark.day:%b %-d}") for mark in marks[every // 2 :: every]],
    )
