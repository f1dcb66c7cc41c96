"""Strips: a mean with its interval between the smallest and the largest value of all iterations."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.results.scale import Scale

# Room for the numbers beside the ends, as a part of the width
MARGIN = 0.16
# In thousandths of the width. A narrow interval stays visible.
LEAST_WIDTH = 6


@dataclass(frozen=True, kw_only=True)
class Figures:
    """A mean with its error, and what else is known about all iterations."""

    mean: float
    error: float
    low: float | None = None
    high: float | None = None
    median: float | None = None

    @property
    def bottom(self) -> float:
        """Return the lower end of the 95 % interval."""
        return self.mean - self.error

    @property
    def top(self) -> float:
        """Return the upper end of the 95 % interval."""
        return self.mean + self.error


@dataclass(frozen=True, kw_only=True)
class Strip:
    """Positions in percent of the width; empty if the number is unknown."""

    low: str
    high: str
    width: str
    start: str
    interval: str
    median: str


def strips(all_figures: Sequence[Figures]) -> list[Strip]:
    """Return strips on one axis."""
    axis = _axis(all_figures)
    return [_strip(figures, axis) for figures in all_figures]


def _axis(all_figures: Sequence[Figures]) -> Scale:
    ends = [
        end
        for figures in all_figures
        for end in (figures.low, figures.high, figures.bottom, figures.top)
        if end is not None
    ]
    # Without a spread, the strip is in the middle.
    room = (max(ends) - min(ends)) * MARGIN / (1 - 2 * MARGIN) or 1.0
    return Scale(low=min(ends) - room, high=max(ends) + room)


def _strip(figures: Figures, axis: Scale) -> Strip:
    has_range = figures.low is not None and figures.high is not None
    start, end = axis.at(figures.bottom), axis.at(figures.top)
    width = max(end - start, LEAST_WIDTH)
    return Strip(
        low=axis.percent(figures.low) if figures.low is not None else "",
        high=axis.percent(figures.high) if figures.high is not None else "",
        width=_percent(axis.at(figures.high or 0) - axis.at(figures.low or 0)) if has_range else "",
        start=_percent((start + end - width) / 2),
        interval=_percent(width),
        median=axis.percent(figures.median) if figures.median is not None else "",
    )


def _percent(thousandths: float) -> str:
    return f"{thousandths / 10:g}%"
