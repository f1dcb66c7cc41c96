"""Announcements of waiting jobs to the workers: messages on the Celery queues of the lanes.

The queue is in PostgreSQL. A message only says that work may be waiting in a lane. It names no job: the slot that
receives it claims the best waiting job, and claims again until none waits. Lost, repeated and late messages
therefore do not change the order of the jobs.

A busy slot needs no message, because it claims again after its job. A lane therefore contains only a few messages
for each live slot, however many jobs wait: each announcement first reads the length of its lane, in a separate
round trip. For shards, the conductor keeps as many messages in the lane of its job as slots can help.
"""

from collections import Counter
from datetime import timedelta

from django.db import Error as DatabaseError
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from jobs.enums import Priority, Status
from jobs.lifecycle import job_moves
from jobs.models import CLAIMABLE, Job
from jobs.queue import closures, forecast
from simservice.celery import send
from simservice.redis.client import best_effort, redis

TASK = "jobs.tasks.simulate"
# A lane contains at most this many messages for each live slot, or MIN_MESSAGES if that is more.
MESSAGES_PER_SLOT = 2
MIN_MESSAGES = 10
SWEEP_BATCH = 100
# A younger pending job is still being announced by the request that submitted it.
ANNOUNCED_WITHIN = timedelta(seconds=2)
UNANNOUNCED = Q(status=Status.PENDING, created_at__lt=Now() - ANNOUNCED_WITHIN)


def queue_of(priority: int) -> str:
    """Return the name of a lane's Celery queue."""
    return f"sim.{Priority(priority).api_name}"


def announce(job: Job) -> None:
    """Mark a pending job as queued and wake a slot. During an outage of Redis, the sweep announces the job."""

    def mark_and_wake() -> None:
        # In this order, because a claim skips a row that is being written
        if job_moves.mark_queued(job):
            wake_one(job.priority)

    best_effort(mark_and_wake, default=None)


def wake_one(priority: int) -> None:
    """Send a message to a lane unless its limit is reached. Raises RedisError."""
    waiting, limit = _messages(priority)
    if waiting < limit:
        send(TASK, queue=queue_of(priority))


def wake(priority: int, *, slots: int) -> int:
    """Send messages until `slots` of them wait in a lane. Return the number sent. Raises RedisError."""
    waiting, limit = _messages(priority)
    missing = max(0, min(slots, limit) - waiting)
    if missing:
        send(TASK, queue=queue_of(priority), count=missing)
    return missing


def _messages(priority: int) -> tuple[int, int]:
    """Return the number of messages in a lane, and its limit. Raises RedisError."""
    with redis().pipeline(transaction=False) as pipe:
        pipe.llen(queue_of(priority))
        pipe.get(forecast.SLOTS_KEY)
        waiting, slots = pipe.execute()
    return int(waiting), max(MIN_MESSAGES, MESSAGES_PER_SLOT * int(slots or 0))


def pass_on() -> None:
    """Wake a slot for the best waiting job, if any, for a slot that received a message but claims nothing.

    If the database or Redis does not respond, the sweep wakes a slot.
    """
    try:
        waiting = Job.objects.filter(CLAIMABLE, priority__in=closures.open_lanes())
        waiting = waiting.order_by("priority", "id")
        best = waiting.values_list("priority", flat=True).first()
    except DatabaseError:
        return
    if best is not None:
        best_effort(lambda: wake_one(best), default=None)


def unannounced() -> QuerySet[Job]:
    """Return pending jobs whose announcement was lost."""
    return Job.objects.filter(UNANNOUNCED)


def announce_pending() -> int:
    """Announce a batch of pending jobs whose announcement was lost. Return how many."""
    jobs = list(unannounced().order_by("id")[:SWEEP_BATCH])
    for job in jobs:
        announce(job)
    return len(jobs)


def replenish() -> int:
    """Send the messages that are missing for up to 100 waiting jobs in each open lane. Return their number.

    Without these messages, idle slots would not notice waiting jobs after Redis lost its data. Raises
    RedisError.
    """
    lanes = [
        forecast.waiting_in(lane).values_list("priority", flat=True)[:SWEEP_BATCH] for lane in closures.open_lanes()
    ]
    waiting = Counter(lanes[0].union(*lanes[1:], all=True) if lanes else [])
    return sum(wake(priority, slots=jobs) for priority, jobs in waiting.items())
