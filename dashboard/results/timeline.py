"""The timeline of a job that several slots ran: one row for each slot, one bar for each process."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dashboard.results.headline import clock
from jobs.models import Run

# In percent. A short process stays visible.
LEAST_WIDTH = 0.4
ROW_HEIGHT = 22
TICKS = 4


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A process, as a bar in percent of the width."""

    x: str
    width: str
    kind: str
    """"whole" for the baseline or a stage that was not split, "shard" for others, "stopped" if it did not count."""


@dataclass(frozen=True, kw_only=True)
class Seat:
    """A slot with its processes, and for how many seconds it ran them."""

    number: int
    y: int
    bars: Sequence[Bar]
    busy: float
    first: float
    last: float


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The slots of a job's last attempt. `height` is in pixels."""

    seats: Sequence[Seat]
    height: int
    seconds: float
    labels: Sequence[str]


def timeline_of(runs: Sequence[Run]) -> Timeline | None:
    """Return the timeline of the last attempt, or None unless several slots ran it and all processes have ended."""
    last = max((run.attempt for run in runs), default=0)
    spans = [(run, run.started_at, run.ended_at) for run in runs if run.attempt == last]
    ended = [(run, start, end) for run, start, end in spans if end is not None]
    if len({run.seat for run, _, _ in ended}) < 2 or len(ended) < len(spans):
        return None
    begin, finish = min(start for _, start, _ in ended), max(end for _, _, end in ended)
    total = max((finish - begin).total_seconds(), 0.001)
    by_seat: dict[int, list[tuple[Run, datetime, datetime]]] = defaultdict(list)
    for span in sorted(ended, key=lambda each: each[1]):
        by_seat[span[0].seat].append(span)
    seats = [_seat(row, by_seat[seat], begin, total) for row, seat in enumerate(sorted(by_seat))]
    marks = [_mark(total * number / TICKS, total) for number in range(TICKS + 1)]
    return Timeline(seats=seats, height=len(seats) * ROW_HEIGHT, seconds=total, labels=marks)


def _mark(seconds: float, total: float) -> str:
    """Return a label of the time axis."""
    return clock(seconds) if total >= 60 else f"{seconds:.1f} s"


def _seat(row: int, spans: Sequence[tuple[Run, datetime, datetime]], begin: datetime, total: float) -> Seat:
    """Return a slot with its processes, in the order of their starts."""
    times = [(run, (start - begin).total_seconds(), (end - begin).total_seconds()) for run, start, end in spans]
    return Seat(
        number=spans[0][0].seat + 1,
        y=row * ROW_HEIGHT,
        bars=[_bar(run, start, end, total) for run, start, end in times],
        busy=sum(end - start for _, start, end in times),
        first=times[0][1],
        last=max(end for _, _, end in times),
    )


def _bar(run: Run, start: float, end: float, total: float) -> Bar:
    kind = "stopped" if run.stopped_for else "shard" if run.shard else "whole"
    width = max((end - start) / total * 100, LEAST_WIDTH)
    return Bar(x=f"{min(start / total * 100, 100 - width):.2f}%", width=f"{width:.2f}%", kind=kind)
