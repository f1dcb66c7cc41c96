"""Columns by day, as SVG that the server draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

HEIGHT = 100.0
# Of each day's share of the width.
COLUMN = 0.72


@dataclass(frozen=True, kw_only=True)
class Column:
    """One day's value, and its column in percent of the picture's width and height."""

    day: date
    value: int
    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Columns of some days in a row, with the largest value and the sum of all."""

    columns: Sequence[Column]
    most: int
    total: int


def by_day(days: Sequence[tuple[date, int]]) -> Chart:
    """Draw a column for each day; the largest value is as high as the picture."""
    most = max((value for _, value in days), default=0)
    step = 100 / (len(days) or 1)
    columns = [
        Column(
            day=day,
            value=value,
            x=f"{step * number + step * (1 - COLUMN) / 2:.2f}%",
            width=f"{step * COLUMN:.2f}%",
            y=f"{HEIGHT - share(value, most):.2f}%",
            height=f"{share(value, most):.2f}%",
        )
        for number, (day, value) in enumerate(days)
    ]
    return Chart(columns=columns, most=most, total=sum(value for _, value in days))


def share(value: int, most: int) -> float:
    """Return a column's height; what is not nothing can be seen."""
    return max(value / most * HEIGHT, 1.0) if value else 0.0
