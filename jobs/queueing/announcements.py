"""Announcements of waiting jobs in the lanes of Celery.

PostgreSQL holds the queue. A message in a lane's Celery queue is only a hint that there may be work: it names no
job, and a worker that receives it claims the best waiting job, so strict order holds whatever the broker
delivers, repeats or loses.
"""

import logging
from datetime import timedelta

from django.db.models import QuerySet
from django.db.models.functions import Now
from kombu.exceptions import OperationalError

from jobs import lifecycle
from jobs.enums import WAITING, Priority, Status
from jobs.models import Job
from simservice.celery import LANE_QUEUES, app
from simservice.redis.client import best_effort, redis

logger = logging.getLogger(__name__)

LANES = dict(zip(Priority, LANE_QUEUES, strict=True))
HINTS_PER_LANE = 100
SWEEP_BATCH = 100
# A pending job younger than this is still in the hands of the request that submitted it.
ANNOUNCED_WITHIN = timedelta(seconds=2)


def announce(job: Job) -> None:
    """Tell the workers that a pending job waits. A lost announcement is made again by the sweep.

    The job is marked before the hint wakes anybody: a claim passes over a row that is being written.
    """
    queue = LANES[Priority(job.priority)]
    hints = best_effort(lambda: hints_in(queue), default=None)
    if hints is None:
        return
    lifecycle.mark_queued(job)
    try:
        if hints < HINTS_PER_LANE:
            send_hint(queue)
    except OperationalError:
        logger.warning("job %s not announced: the broker does not answer", job.pk)


def hints_in(queue: str) -> int:
    """Return how many hints wait in a lane. Raises RedisError."""
    return int(str(redis().llen(queue)))


def send_hint(queue: str) -> None:
    """Put one hint into a lane. Raises OperationalError."""
    app.send_task("jobs.tasks.simulate", queue=queue)


def unannounced() -> QuerySet[Job]:
    """Return the pending jobs whose announcement was lost."""
    return Job.objects.filter(status=Status.PENDING, created_at__lt=Now() - ANNOUNCED_WITHIN)


def announce_pending() -> int:
    """Announce pending jobs whose announcement was lost; return how many."""
    jobs = list(unannounced().order_by("id")[:SWEEP_BATCH])
    for job in jobs:
        announce(job)
    return len(jobs)


def replenish_hints() -> int:
    """Make sure that every lane holds a hint for each waiting job, a hundred at most; return how many were sent.

    This is what brings the workers back to the queue after Redis was emptied.
    """
    sent = 0
    for priority, queue in LANES.items():
        waiting = Job.objects.filter(status__in=WAITING, priority=priority)[:HINTS_PER_LANE].count()
        missing = waiting - hints_in(queue) if waiting else 0
        for _ in range(missing):
            send_hint(queue)
        sent += max(missing, 0)
    return sent
