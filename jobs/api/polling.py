"""How clients follow a job: when to ask again, and the state whose change ends a long poll."""

import math
from collections.abc import Collection
from typing import NamedTuple

from django.utils import timezone

from jobs.enums import PublicStatus, Status
from jobs.live.progress import Progress, percents_of
from jobs.models import Job
from jobs.queue.forecast import Estimate

# Polling at a quarter of the time left bounds the delay to that quarter.
SHARE_OF_TIME_LEFT = 0.25
SHORTEST_SECONDS, LONGEST_SECONDS, UNKNOWN_SECONDS = 1, 30, 2


def poll_after_seconds(job: Job, progress: Progress, *, start: Estimate | None) -> int | None:
    """Return the seconds until the next request, 1 to 30, or None for a job that has ended.

    `start` is when a waiting job is expected to start, None if unknown.
    """
    if job.is_terminal:
        return None
    if job.is_paused:
        return LONGEST_SECONDS
    left = _seconds_left(job, progress, start)
    if left is None:
        return UNKNOWN_SECONDS
    return min(max(math.ceil(left * SHARE_OF_TIME_LEFT), SHORTEST_SECONDS), LONGEST_SECONDS)


def _seconds_left(job: Job, progress: Progress, start: Estimate | None) -> float | None:
    """Return the seconds until a waiting job starts or a running one ends, None if unknown."""
    if job.is_waiting:
        return start.seconds if start else None
    if job.started_at is None or progress.percent <= 0:
        return None
    elapsed = (timezone.now() - job.started_at).total_seconds()
    return elapsed * (100 - progress.percent) / progress.percent


class JobState(NamedTuple):
    """The state of an unfinished job. `percent` is rounded down."""

    status: PublicStatus
    percent: int
    is_paused: bool


def state_of(job: Job, progress: Progress) -> JobState:
    """Return the state of a job with its progress."""
    return JobState(job.public_status, int(progress.percent), job.is_paused)


def states_of(job_ids: Collection[int]) -> dict[int, JobState]:
    """Return the states of unfinished jobs; those of ended ones have no percent.

    One query, and one request to Redis if any of them runs.
    """
    jobs = list(Job.objects.filter(pk__in=job_ids).only("status", "attempt", "paused_at"))
    states = {job.pk: JobState(job.public_status, 0, job.is_paused) for job in jobs}
    running = [job for job in jobs if job.status == Status.RUNNING]
    for job, percent in zip(running, percents_of(running), strict=True):
        states[job.pk] = JobState(PublicStatus.RUNNING, int(percent), is_paused=False)
    return states
