"""Bar charts by day, rendered as SVG on the server."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

HEIGHT = 100.0
# Width of a bar, as a fraction of the width of a day.
BAR_WIDTH = 0.72


@dataclass(frozen=True, kw_only=True)
class Bar:
    """The value of a day, and the position and size of its bar in percent of the chart."""

    day: date
    value: int
    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Bars of consecutive days, with their largest value and their sum."""

    bars: Sequence[Bar]
    largest: int
    total: int


def by_day(days: Sequence[tuple[date, int]]) -> Chart:
    """Return a chart with a bar per day; the largest value has the full height."""
    largest = max((value for _, value in days), default=0)
    step = 100 / (len(days) or 1)
    bars = [
        Bar(
            day=day,
            value=value,
            x=f"{step * number + step * (1 - BAR_WIDTH) / 2:.2f}%",
            width=f"{step * BAR_WIDTH:.2f}%",
            y=f"{HEIGHT - _bar_height(value, largest):.2f}%",
            height=f"{_bar_height(value, largest):.2f}%",
        )
        for number, (day, value) in enumerate(days)
    ]
    return Chart(bars=bars, largest=largest, total=sum(value for _, value in days))


def _bar_height(value: int, largest: int) -> float:
    """Return the height of a bar in percent, at least 1 for a value above 0."""
    return max(value / largest * HEIGHT, 1.0) if value else 0.0
