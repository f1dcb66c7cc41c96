"""The chart of a character's history, rendered as SVG on the server. Its points are evenly spaced jobs.

The picture stretches, so positions are percentages. Summaries are untrusted: their numbers are only compared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.models import Build
from jobs.results.history import Point

TICKS = 6
DATES = 5
# In percent of the width. A build's number is left out if it is closer than this to the one before.
MARK_DISTANCE = 3.0
# Above and below the intervals: at least a part of their range, and of the value, so that tiny changes look small
MARGIN, VALUE_MARGIN = 0.06, 0.005


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A job in the picture."""

    x: str
    y: str
    point: Point


@dataclass(frozen=True, kw_only=True)
class Label:
    """A label of an axis, at a position in percent."""

    at: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Period:
    """Consecutive jobs on one build. `x` is where the period begins; `is_numbered` if its number fits there."""

    number: int
    build: Build | None
    points: Sequence[Point]
    x: str
    is_numbered: bool

    @property
    def mean(self) -> float:
        """Return the average of the jobs' means."""
        return sum(point.mean / len(self.points) for point in self.points)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """The picture: paths of the line and of the intervals in a square of 100 by 100, and what is drawn above it."""

    line: str
    intervals: str
    dots: Sequence[Dot]
    values: Sequence[Label]
    dates: Sequence[Label]
    periods: Sequence[Period]
    low: float
    high: float


def chart_of(points: Sequence[Point]) -> Chart | None:
    """Return the chart of points in the order of submission, None without points."""
    if not points:
        return None
    scale = _Scale(points)
    dots = [
        Dot(x=f"{scale.x(place):.2f}", y=f"{scale.y(point.mean):.2f}", point=point)
        for place, point in enumerate(points)
    ]
    ends = [(scale.y(point.mean - point.error), scale.y(point.mean + point.error)) for point in points]
    return Chart(
        line="M" + "L".join(f"{dot.x} {dot.y}" for dot in dots),
        intervals="".join(f"M{dot.x} {low:.2f}V{high:.2f}" for dot, (low, high) in zip(dots, ends, strict=True)),
        dots=dots,
        values=scale.values(),
        dates=_dates(dots),
        periods=_periods(points, scale),
        low=min(point.mean for point in points),
        high=max(point.mean for point in points),
    )


class _Scale:
    """Maps jobs to the width, and numbers to the height of the picture, which contains all intervals."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.count = len(points)
        low = min(point.mean - point.error for point in points)
        high = max(point.mean + point.error for point in points)
        margin = max((high - low) * MARGIN, abs(high) * VALUE_MARGIN) or 1.0
        self.low, self.high = low - margin, high + margin

    def x(self, place: int) -> float:
        """Return the position of a job in percent of the width."""
        return (place + 0.5) / self.count * 100

    def y(self, value: float) -> float:
        """Return the position of a number in percent of the height, from the top."""
        return (self.high - value) / (self.high - self.low) * 100

    def values(self) -> list[Label]:
        """Return labels of round numbers."""
        step = _round_step((self.high - self.low) / TICKS)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [
            Label(at=f"{self.y(place * step):.2f}", text=_short(place * step)) for place in range(first, last + 1)
        ]


def _round_step(least: float) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= least)


def _short(value: float) -> str:
    """Return a number as the label of an axis."""
    return f"{value:,.10g}" if abs(value) < 1e9 else f"{value:.3g}"


def _dates(dots: Sequence[Dot]) -> list[Label]:
    """Return the days of some evenly spaced jobs, or their months if the jobs are from several years."""
    step = math.ceil(len(dots) / DATES)
    pattern = "%b %-d" if len({dot.point.at.year for dot in dots}) == 1 else "%b %Y"
    return [Label(at=dot.x, text=f"{dot.point.at:{pattern}}") for dot in dots[::step]]


def _periods(points: Sequence[Point], scale: _Scale) -> list[Period]:
    """Return the periods between changes of the build."""
    starts = [
        place
        for place, point in enumerate(points)
        if place == 0 or point.job.build_id != points[place - 1].job.build_id
    ]
    periods: list[Period] = []
    numbered = -math.inf
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(points)], strict=True), start=1):
        x = start / scale.count * 100
        fits = x - numbered >= MARK_DISTANCE
        numbered = x if fits else numbered
        part = points[start:end]
        periods.append(Period(number=number, build=part[0].build, points=part, x=f"{x:.2f}", is_numbered=fits))
    return periods
