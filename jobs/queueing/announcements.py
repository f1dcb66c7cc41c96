"""Announcements of waiting jobs to the workers.

The queue is in PostgreSQL. A message in a lane's Celery queue is only a hint that work may be waiting. It names no
job: the worker that receives it claims the best waiting job, so lost and repeated hints do not change the order.
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
# A younger pending job is still being announced by the request that submitted it.
ANNOUNCED_WITHIN = timedelta(seconds=2)


def announce(job: Job) -> None:
    """Mark a pending job as queued and send a hint. If Redis does not respond, the sweep announces the job.

    The job is marked before the hint is sent, because a claim skips a row that is being written.
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
        logger.warning("job %s not announced: the broker does not respond", job.pk)


def hints_in(queue: str) -> int:
    """Return the number of hints in a lane. Raises RedisError."""
    return int(str(redis().llen(queue)))


def send_hint(queue: str) -> None:
    """Send a hint to a lane. Raises OperationalError."""
    app.send_task("jobs.tasks.simulate", queue=queue)


def unannounced() -> QuerySet[Job]:
    """Return pending jobs whose announcement was lost."""
    return Job.objects.filter(status=Status.PENDING, created_at__lt=Now() - ANNOUNCED_WITHIN)


def announce_pending() -> int:
    """Announce a batch of pending jobs whose announcement was lost. Return how many."""
    jobs = list(unannounced().order_by("id")[:SWEEP_BATCH])
    for job in jobs:
        announce(job)
    return len(jobs)


def waiting_in(priority: Priority) -> QuerySet[Job]:
    """Return the waiting jobs of a lane in order.

    A range and both columns in the order leave only the index of waiting jobs. For an empty lane, PostgreSQL would
    otherwise read all jobs by their ids.
    """
    lane = Job.objects.filter(status__in=WAITING, priority__range=(priority, priority))
    return lane.order_by("priority", "id")


def replenish_hints() -> int:
    """Send the hints that are missing: one for each waiting job, up to 100 in a lane. Return how many were sent.

    Without this, workers would ignore the queue after Redis loses its data.
    """
    sent = 0
    for priority, queue in LANES.items():
        waiting = waiting_in(priority)[:HINTS_PER_LANE].count()
        missing = waiting - hints_in(queue) if waiting else 0
        for _ in range(missing):
            send_hint(queue)
        sent += max(missing, 0)
    return sent
