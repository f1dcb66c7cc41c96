"""Map values to positions in a chart."""

import math
from collections.abc import Sequence
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
class Label:
    """A label of an axis, and its position in percent."""

    text: str
    at: str
    anchor: str = "middle"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A linear axis from `low` to `high`."""

    low: float
    high: float

    def part(self, value: float) -> float:
        """Return the position of a value from 0 to 1, at an end if the axis does not contain it."""
        span = self.high - self.low
        return min(max((value - self.low) / span, 0.0), 1.0) if 0 < span < math.inf else 0.0

    def at(self, value: float) -> int:
        """Return the position of a value in a picture that is WIDTH wide."""
        return round(self.part(value) * WIDTH)

    def percent(self, value: float) -> str:
        """Return the position of a value in percent of the width."""
        return f"{self.at(value) / WIDTH * 100:g}%"

    def contains(self, value: float) -> bool:
        """Return whether the axis reaches a value."""
        return self.low <= value <= self.high

    def ticks(self, count: int, *, steps: Sequence[float] = STEPS) -> list[Tick]:
        """Return round values on the axis, about `count`."""
        step = step_of(self.high - self.low, count, steps=steps)
        if not step:
            return []
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [Tick(value=number * step, at=self.percent(number * step)) for number in range(first, last + 1)]


def step_of(span: float, count: int, *, steps: Sequence[float] = STEPS) -> float:
    """Return a round step that divides a span into at most `count` parts; 0 if there is no span."""
    if not (0 < span < math.inf) or not math.isfinite(1 / span):
        return 0.0
    power = 10.0 ** math.floor(math.log10(span / count))
    return next((step * power for step in steps if step * power * count >= span * (1 - 1e-9)), 10 * power)


def rounded(low: float, high: float, *, count: int) -> Scale:
    """Return an axis that contains the numbers, between multiples of a step that divides it into about `count`."""
    step = step_of(high - low, count)
    if not step:
        return Scale(low=low, high=high)
    return Scale(low=math.floor(low / step + 1e-9) * step, high=math.ceil(high / step - 1e-9) * step)


def around(origin: float, intervals: Sequence[tuple[float, float]]) -> Scale:
    """Return an axis that contains the origin and the intervals of all rows, without those that dwarf the rest."""
    reaches = [max(abs(low - origin), abs(high - origin)) for low, high in intervals]
    kept = sorted(reaches)[: len(reaches) - max(1, len(reaches) // OUTLIERS)]
    limit = kept[-1] if len(kept) > 2 and max(reaches) > DWARFED * kept[-1] > 0 else math.inf
    shown = [end for ends, reach in zip(intervals, reaches, strict=True) if reach <= limit for end in ends]
    return rounded(min([origin, *shown]), max([origin, *shown]), count=8)
