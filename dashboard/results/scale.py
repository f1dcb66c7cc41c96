"""Axes: from numbers to positions in a picture that is WIDTH wide."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH = 1000
# An axis may cut the bars of one row in this many, if they are many times longer than all others.
OUTLIERS = 20
DWARFED = 3.0
# Steps of an axis, as multiples of a power of ten
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A value of an axis, and its position in percent of the width."""

    value: float
    at: str


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A linear axis from `low` to `high`."""

    low: float
    high: float

    def at(self, value: float) -> int:
        """Return the position of a value, at an end if the axis does not contain it."""
        span = self.high - self.low
        if not 0 < span < math.inf:
            return 0
        return round(min(max((value - self.low) / span, 0.0), 1.0) * WIDTH)

    def percent(self, value: float) -> str:
        """Return the position of a value in percent of the width."""
        return f"{self.at(value) / WIDTH * 100:g}%"

    def contains(self, value: float) -> bool:
        """Return whether the axis reaches a value."""
        return self.low <= value <= self.high

    def ticks(self, count: int) -> list[Tick]:
        """Return round values on the axis, about `count`."""
        step = step_of(self.high - self.low, count)
        if not step:
            return []
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [Tick(value=number * step, at=self.percent(number * step)) for number in range(first, last + 1)]


def step_of(span: float, count: int) -> float:
    """Return a round step that divides a span into at most `count` parts; 0 if there is no span."""
    if not (0 < span < math.inf) or not math.isfinite(1 / span):
        return 0.0
    power = 10.0 ** math.floor(math.log10(span / count))
    return next((step * power for step in STEPS if step * power * count >= span * (1 - 1e-9)), 10 * power)


def rounded(low: float, high: float, *, count: int) -> Scale:
    """Return an axis that contains the numbers, between multiples of a step that divides it into about `count`."""
    step = step_of(high - low, count)
    if not step:
        return Scale(low=low, high=high)
    return Scale(low=math.floor(low / step + 1e-9) * step, high=math.ceil(high / step - 1e-9) * step)


def around(origin: float, ends: Sequence[tuple[float, float]]) -> Scale:
    """Return an axis that contains the origin and the intervals of all rows, without those that dwarf the rest."""
    limit = _limit(sorted(_reach(origin, each) for each in ends))
    kept = [each for each in ends if _reach(origin, each) <= limit]
    return rounded(*_span(origin, kept), count=8)


def _reach(origin: float, interval: tuple[float, float]) -> float:
    """Return how far an interval reaches from the origin."""
    return max(abs(interval[0] - origin), abs(interval[1] - origin))


def _limit(reaches: Sequence[float]) -> float:
    """Return how far the axis must reach, given how far each row does, in ascending order."""
    kept = reaches[: len(reaches) - max(1, len(reaches) // OUTLIERS)]
    has_outliers = len(kept) > 2 and reaches[-1] > DWARFED * kept[-1] > 0
    return kept[-1] if has_outliers else math.inf


def _span(origin: float, intervals: Iterable[tuple[float, float]]) -> tuple[float, float]:
    low = high = origin
    for start, end in intervals:
        low, high = min(low, start), max(high, end)
    return low, high
