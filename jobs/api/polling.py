"""How soon a client should ask for a job's status again."""

import math

from django.utils import timezone

from jobs.live.progress import Progress
from jobs.models import Job
from jobs.queue.forecast import Estimate

# A client that asks after a quarter of the remaining time learns of the end within a quarter of it.
SHARE_OF_TIME_LEFT = 0.25
SHORTEST_SECONDS, LONGEST_SECONDS, UNKNOWN_SECONDS = 1, 30, 2


def poll_after_seconds(job: Job, progress: Progress, *, start: Estimate | None) -> int | None:
    """Return the seconds until the next request, 1 to 30, or None for a job that has ended.

    `start` is when a waiting job is expected to start, None if unknown.
    """
    if job.is_terminal:
        return None
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
