"""The timeline of a job that several slots ran: one row for each slot, one bar for each process."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from dashboard.results.headline import clock
from jobs.models import Run
from jobs.results import labels

# In percent. A short process stays visible.
LEAST_WIDTH = 0.4
ROW_HEIGHT = 22
TICKS = 4


def timeline_of(runs: Sequence[Run]) -> dict[str, Any] | None:
    """Return the timeline of a result, or None unless several slots ran it and all processes have ended.

    Each slot has its processes as `bars`, and was `busy` for a number of seconds. `height` is in pixels.
    """
    last = max((run.attempt for run in runs), default=0)
    spans = [(run, run.started_at, run.ended_at) for run in labels.counted_runs(runs, attempt=last)]
    ended = [(run, start, end) for run, start, end in spans if end is not None]
    if len({run.seat for run, _, _ in ended}) < 2 or len(ended) < len(spans):
        return None
    begin, finish = min(start for _, start, _ in ended), max(end for _, _, end in ended)
    total = max((finish - begin).total_seconds(), 0.001)
    by_seat: dict[int, list[tuple[Run, float, float]]] = defaultdict(list)
    for run, start, end in sorted(ended, key=lambda span: span[1]):
        by_seat[run.seat].append((run, (start - begin).total_seconds(), (end - begin).total_seconds()))
    seats = [
        {
            "number": seat + 1,
            "y": row * ROW_HEIGHT,
            "bars": [_bar(run, start, end, total) for run, start, end in times],
            "busy": sum(end - start for _, start, end in times),
            "first": times[0][1],
            "last": max(end for _, _, end in times),
        }
        for row, (seat, times) in enumerate(sorted(by_seat.items()))
    ]
    marks = [total * number / TICKS for number in range(TICKS + 1)]
    times_at = [clock(mark) if total >= 60 else f"{mark:.1f} s" for mark in marks]
    return {"seats": seats, "height": len(seats) * ROW_HEIGHT, "seconds": total, "labels": times_at}


def _bar(run: Run, start: float, end: float, total: float) -> dict[str, str]:
    """Return a process as a bar in percent of the width.

    Its kind is "whole" for the baseline or a stage that was not split, "shard" for others, and "stopped" if the
    process did not count.
    """
    kind = "stopped" if run.stopped_for else "shard" if run.shard else "whole"
    width = max((end - start) / total * 100, LEAST_WIDTH)
    return {"x": f"{min(start / total * 100, 100 - width):.2f}%", "width": f"{width:.2f}%", "kind": kind}
