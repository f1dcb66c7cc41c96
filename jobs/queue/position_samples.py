"""Samples of the queue: the positions of a sample of waiting jobs, from which the position of any job is derived.

Each sweep reads a bounded number of jobs: the front of the queue, and the next part of the rest. The marks of the
other parts are kept. Claims take jobs from the front, so these parts change little until they are read again.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from django.db import connection

from jobs.lifecycle import job_moves
from simservice.postgresql.statements import load

MAX_MARKS = 1000
# The number of jobs that a sweep reads from the front of the queue, and from the next part of the rest
FRONT_JOBS, PART_JOBS = 5_000, 15_000
# The priority and the id of a job, by which the queue is ordered
Key = tuple[int, int]
START: Key = (-1, 0)

SQL = load(__file__, job_moves.SQL)


class PositionSample(NamedTuple):
    """A waiting job with the number of jobs and the seconds of work up to and including it."""

    priority: int
    job_id: int
    position: int
    work_seconds: float

    @property
    def key(self) -> Key:
        return self.priority, self.job_id


class ExpectedSeconds(NamedTuple):
    """The expected seconds of jobs with 1, 2, … vCPUs, and of jobs with more vCPUs than the list contains."""

    by_width: list[float]
    other: float


class Ahead(NamedTuple):
    """The number of jobs ahead of a job, and their seconds of work."""

    jobs: int
    work_seconds: float


@dataclass(frozen=True, kw_only=True)
class PositionSamples:
    """The marks in queue order, and the key up to which the latest sweep read the queue."""

    marks: Sequence[PositionSample] = ()
    read_to: Key = START


class _Part(NamedTuple):
    """Samples of the jobs after the key `after`, counted from it. `end` is None if these are the last jobs."""

    after: Key
    marks: Sequence[PositionSample]
    end: Key | None


def read(previous: PositionSamples, expected: ExpectedSeconds) -> PositionSamples:
    """Return the current marks, given those of the previous sweep.

    A queue of up to 20,000 jobs is read completely. Without previous marks, several sweeps are needed to read a
    longer queue.
    """
    front = _read_part(START, expected, limit=FRONT_JOBS)
    if front.end is None:
        return PositionSamples(marks=_thinned(front.marks))
    rest = _read_part(max(front.end, previous.read_to), expected, limit=PART_JOBS)
    return PositionSamples(marks=_thinned(splice(previous.marks, [front, rest])), read_to=rest.end or START)


def _read_part(after: Key, expected: ExpectedSeconds, *, limit: int) -> _Part:
    """Read up to `limit` jobs after a key. One scan of the index on waiting jobs."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["marks"], [expected.by_width, expected.other, *after, limit, MAX_MARKS])
        rows = cursor.fetchall()
    marks = [PositionSample(*row[:4]) for row in rows]
    is_last = not rows or rows[0][4] < limit
    return _Part(after, marks, None if is_last else marks[-1].key)


def splice(previous: Sequence[PositionSample], parts: Sequence[_Part]) -> list[PositionSample]:
    """Return the previous marks with parts of the queue replaced. The parts are in order."""
    spliced: list[PositionSample] = []
    at: Key | None = START
    for part in parts:
        if at is not None:
            spliced += _between(previous, at, part.after, base=_total(spliced))
        spliced += _shifted(part.marks, by=_total(spliced))
        at = part.end
    return spliced if at is None else spliced + _between(previous, at, None, base=_total(spliced))


def _between(
    previous: Sequence[PositionSample], after: Key, to: Key | None, *, base: Ahead
) -> list[PositionSample]:
    """Return the marks after one key and up to another, with positions counted from the first key plus `base`."""
    first = bisect_right(previous, after, key=lambda mark: mark.key)
    last = len(previous) if to is None else bisect_right(previous, to, key=lambda mark: mark.key)
    priority, job_id = after
    skipped = ahead_of(previous, (priority, job_id + 1))
    by = Ahead(base.jobs - skipped.jobs, base.work_seconds - skipped.work_seconds)
    return _shifted(previous[first:last], by=by)


def _shifted(marks: Sequence[PositionSample], *, by: Ahead) -> list[PositionSample]:
    """Return the marks with `by` added to their positions and work."""
    return [
        PositionSample(*mark.key, mark.position + by.jobs, mark.work_seconds + by.work_seconds) for mark in marks
    ]


def _total(marks: Sequence[PositionSample]) -> Ahead:
    """Return the jobs and the work up to and including the last mark."""
    return Ahead(marks[-1].position, marks[-1].work_seconds) if marks else Ahead(0, 0.0)


def _thinned(marks: Sequence[PositionSample]) -> list[PositionSample]:
    """Return about MAX_MARKS of the marks: the last one of each lane and of each stretch of equal length."""
    stretch = math.ceil(_total(marks).jobs / MAX_MARKS)
    groups = groupby(marks, key=lambda mark: (mark.priority, (mark.position - 1) // stretch))
    return [list(group)[-1] for _, group in groups]


def ahead_of(marks: Sequence[PositionSample], key: Key) -> Ahead:
    """Return the jobs and work ahead of a job. Between two marks, interpolate the position from the job's id."""
    index = bisect_left(marks, key, key=lambda mark: mark.key)
    before = marks[index - 1] if index else PositionSample(-1, 0, 0, 0.0)
    after = marks[index] if index < len(marks) else None
    if after is None or after.priority != key[0]:
        # The job was submitted after the marks were read.
        return Ahead(before.position, before.work_seconds)
    between = after.position - before.position - 1
    passed = (key[1] - before.job_id) / (after.job_id - before.job_id)
    share = passed if before.priority == key[0] else 0.5
    jobs = round(between * share)
    work = (after.work_seconds - before.work_seconds) * jobs / (between + 1)
    return Ahead(before.position + jobs, before.work_seconds + work)
