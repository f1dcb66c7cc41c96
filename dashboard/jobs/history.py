"""The history of a character on an account's page: results over time, with a line for each setup.

The chart is SVG that stretches, so positions are percentages. Summaries are untrusted: their numbers are only
compared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard.access import AccountAccess, account_page
from dashboard.paging import Page, id_in_cursor
from dashboard.results.scale import Label, Scale
from jobs.models import CHARACTER_LENGTH, Build, Job
from jobs.results import history as histories
from jobs.results.common_variants import Pair
from jobs.results.history import Point
from jobs.results.verdicts import percent_with_margin
from simservice.api.pagination import make_cursor

POINTS = 200
TICKS, DATES = 6, 4
# Steps of the axis, as multiples of a power of ten
STEPS = (1.0, 2.0, 5.0, 10.0)
# In percent of the width. A build's number is left out if it is closer than this to the one before.
MARK_DISTANCE = 3.0
# In percent of the width: the distance of the first and last dot from the edges.
PADDING = 2.0
# The lines of this many setups have colours of their own.
COLOURS = 5
# Up to this many days, the axis shows times.
DAYS_WITH_TIMES = 4
# Above and below the intervals: at least a part of their range, and of the value, so that tiny changes look small
MARGIN, VALUE_MARGIN = 0.06, 0.005


@account_page()
def history(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Show the newest results of a character, by default the latest job's. Raises Http404 for an invalid cursor."""
    before = id_in_cursor(request, account_id=access.account.pk)
    # PostgreSQL accepts no null characters.
    asked = request.GET.get("character", "").replace("\0", "")[:CHARACTER_LENGTH]
    character = asked or histories.latest_character(access.account)
    found = histories.history_of(access.account, character, before=before, limit=POINTS)
    # The links name the character, even if the request does not.
    query = {"character": character}
    first = f"?{urlencode(query)}" if before is not None else ""
    following = ""
    if found.last_id is not None:
        cursor = make_cursor(account_id=access.account.pk, last_id=found.last_id)
        following = f"?{urlencode({**query, 'after': cursor})}"
    context = {
        "section": "history",
        "character": character,
        "characters": histories.characters_of(access.account),
        "max_characters": histories.MAX_CHARACTERS,
        "points": found.points[::-1],
        "chart": chart_of(found.points),
        "setups": _setup_rows(found.points),
        "page": Page[Job](rows=(), first=first, following=following),
    }
    return render(request, "dashboard/history.html", context)


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A job in the picture."""

    x: str
    y: str
    point: Point


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
        return sum(point.mean / len(self.points) for point in self.points)


@dataclass(frozen=True, kw_only=True)
class Series:
    """A setup in the picture: paths of its line and of the intervals, in a square of 100 by 100, and its dots."""

    number: int
    colour: int
    line: str
    intervals: str
    dots: Sequence[Dot]


@dataclass(frozen=True, kw_only=True)
class HistoryChart:
    """The picture: a series for each setup, the newest one last, and what is drawn around them."""

    series: Sequence[Series]
    values: Sequence[Label]
    dates: Sequence[Label]
    periods: Sequence[Period]
    low: float
    high: float


def _setup_rows(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the setups, newest first, with their numbers and colours in the picture."""
    rows = [
        {
            "number": number,
            "colour": number % COLOURS,
            "setup": setup,
            "last": setup.points[-1],
            "change": setup.change,
            "change_text": _change_text(setup.change),
        }
        for number, setup in enumerate(histories.setups_of(points), start=1)
    ]
    return rows[::-1]


def _change_text(change: Pair | None) -> str:
    """Return a change with its margin in percent, empty for the first setup and if it cannot be calculated."""
    if change is None or change.percent is None:
        return ""
    return percent_with_margin(change.percent, change.margin_percent)


def chart_of(points: Sequence[Point]) -> HistoryChart | None:
    """Return the chart of points in the order of submission, None without points."""
    if not points:
        return None
    ends = [(point.mean - point.error, point.mean + point.error) for point in points]
    low, high = min(start for start, _ in ends), max(end for _, end in ends)
    margin = max((high - low) * MARGIN, abs(high) * VALUE_MARGIN) or 1.0
    axis = Scale(low=low - margin, high=high + margin)
    times = TimeAxis(points[0].at, points[-1].at)
    return HistoryChart(
        series=[
            _series(number, setup.points, axis=axis, times=times)
            for number, setup in enumerate(histories.setups_of(points), start=1)
        ],
        values=[
            Label(at=_down(axis, value), text=f"{value:,.10g}" if abs(value) < 1e9 else f"{value:.3g}")
            for value in (tick.value for tick in axis.ticks(TICKS, steps=STEPS))
        ],
        dates=times.labels(),
        periods=_periods(points, times),
        low=min(point.mean for point in points),
        high=max(point.mean for point in points),
    )


def _series(number: int, points: Sequence[Point], *, axis: Scale, times: "TimeAxis") -> Series:
    dots = [Dot(x=f"{times.at(point.at):.2f}", y=_down(axis, point.mean), point=point) for point in points]
    ends = ((dot.x, dot.point.mean - dot.point.error, dot.point.mean + dot.point.error) for dot in dots)
    return Series(
        number=number,
        colour=number % COLOURS,
        line="M" + "L".join(f"{dot.x} {dot.y}" for dot in dots),
        intervals="".join(f"M{x} {_down(axis, start)}V{_down(axis, end)}" for x, start, end in ends),
        dots=dots,
    )


class TimeAxis(NamedTuple):
    """The horizontal axis from the first to the last job."""

    first: datetime
    last: datetime

    def at(self, moment: datetime) -> float:
        """Return the position of a moment in percent of the width."""
        span = (self.last - self.first).total_seconds()
        part = (moment - self.first).total_seconds() / span if span > 0 else 0.5
        return PADDING + part * (100 - 2 * PADDING)

    def labels(self) -> list[Label]:
        """Return some evenly spaced moments as dates: with times if the axis is short, as months if it is long."""
        span = self.last - self.first
        if span < timedelta(minutes=DATES):
            return [Label(at="50.00", text=f"{self.first:%-d %b %H:%M}")]
        pattern = "%-d %b %H:%M" if span < timedelta(days=DAYS_WITH_TIMES) else "%-d %b"
        if self.first.year != self.last.year:
            pattern = "%b %Y" if span > timedelta(days=366) else "%-d %b %Y"
        moments = (self.first + span * (number + 0.5) / DATES for number in range(DATES))
        return [Label(at=f"{self.at(moment):.2f}", text=f"{moment:{pattern}}") for moment in moments]


def _down(axis: Scale, value: float) -> str:
    """Return the position of a number in percent of the height, from the top."""
    return f"{(1 - axis.part(value)) * 100:.2f}"


def _periods(points: Sequence[Point], times: TimeAxis) -> list[Period]:
    """Return the periods of builds. Each begins halfway between its first job and the one before."""
    builds = [point.job.build_id for point in points]
    starts = [place for place, build in enumerate(builds) if place == 0 or build != builds[place - 1]]
    periods: list[Period] = []
    numbered = -math.inf
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(points)], strict=True), start=1):
        x = (times.at(points[start - 1].at) + times.at(points[start].at)) / 2 if start else 0.0
        fits = x - numbered >= MARK_DISTANCE
        numbered = x if fits else numbered
        part = points[start:end]
        periods.append(Period(number=number, build=part[0].build, points=part, x=f"{x:.2f}", is_numbered=fits))
    return periods
