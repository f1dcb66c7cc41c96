"""The history of a character on an account's page: results over time by build.

The chart is SVG that stretches, so positions are percentages. Its points are evenly spaced jobs. Summaries are
untrusted: their numbers are only compared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard.access import AccountAccess, account_page
from dashboard.paging import Page, id_in_cursor
from dashboard.results.scale import Label, Scale
from jobs.models import CHARACTER_LENGTH, Build, Job
from jobs.results import history as histories
from jobs.results.history import Point
from simservice.api.pagination import make_cursor

POINTS = 200
TICKS, DATES = 6, 5
# Steps of the axis, as multiples of a power of ten
STEPS = (1.0, 2.0, 5.0, 10.0)
# In percent of the width. A build's number is left out if it is closer than this to the one before.
MARK_DISTANCE = 3.0
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
class HistoryChart:
    """The picture: paths of the line and of the intervals in a square of 100 by 100, and what is drawn above it."""

    line: str
    intervals: str
    dots: Sequence[Dot]
    values: Sequence[Label]
    dates: Sequence[Label]
    periods: Sequence[Period]
    low: float
    high: float


def chart_of(points: Sequence[Point]) -> HistoryChart | None:
    """Return the chart of points in the order of submission, None without points."""
    if not points:
        return None
    ends = [(point.mean - point.error, point.mean + point.error) for point in points]
    low, high = min(start for start, _ in ends), max(end for _, end in ends)
    margin = max((high - low) * MARGIN, abs(high) * VALUE_MARGIN) or 1.0
    axis = Scale(low=low - margin, high=high + margin)
    dots = [
        Dot(x=f"{(place + 0.5) / len(points) * 100:.2f}", y=_down(axis, point.mean), point=point)
        for place, point in enumerate(points)
    ]
    intervals = zip(dots, ends, strict=True)
    return HistoryChart(
        line="M" + "L".join(f"{dot.x} {dot.y}" for dot in dots),
        intervals="".join(f"M{dot.x} {_down(axis, start)}V{_down(axis, end)}" for dot, (start, end) in intervals),
        dots=dots,
        values=[
            Label(at=_down(axis, value), text=f"{value:,.10g}" if abs(value) < 1e9 else f"{value:.3g}")
            for value in (tick.value for tick in axis.ticks(TICKS, steps=STEPS))
        ],
        dates=_dates(dots),
        periods=_periods(points),
        low=min(point.mean for point in points),
        high=max(point.mean for point in points),
    )


def _down(axis: Scale, value: float) -> str:
    """Return the position of a number in percent of the height, from the top."""
    return f"{(1 - axis.part(value)) * 100:.2f}"


def _dates(dots: Sequence[Dot]) -> list[Label]:
    """Return the days of some evenly spaced jobs, or their months if the jobs are from several years."""
    step = math.ceil(len(dots) / DATES)
    pattern = "%b %-d" if len({dot.point.at.year for dot in dots}) == 1 else "%b %Y"
    return [Label(at=dot.x, text=f"{dot.point.at:{pattern}}") for dot in dots[::step]]


def _periods(points: Sequence[Point]) -> list[Period]:
    builds = [point.job.build_id for point in points]
    starts = [place for place, build in enumerate(builds) if place == 0 or build != builds[place - 1]]
    periods: list[Period] = []
    numbered = -math.inf
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(points)], strict=True), start=1):
        x = start / len(points) * 100
        fits = x - numbered >= MARK_DISTANCE
        numbered = x if fits else numbered
        part = points[start:end]
        periods.append(Period(number=number, build=part[0].build, points=part, x=f"{x:.2f}", is_numbered=fits))
    return periods
