"""Announcements of waiting jobs to the workers.

The queue is in PostgreSQL. A hint in Redis only says that work may be waiting. It names no job: the slot that
receives it claims the best waiting job, so lost and repeated hints do not change the order.

Every idle slot waits for a hint, and Redis gives each hint to one idle slot at once. If no slot is idle, the hint
stays in Redis until a slot is. At most one hint for jobs stays there, however many are sent. A slot that has
received a hint and claimed a job therefore sends another hint if more jobs wait. For shards, there are as many
hints as slots that can help, and the conductor repeats them while shards wait.
"""

import os
import socket
import time
from contextlib import suppress
from datetime import timedelta
from functools import cache
from itertools import takewhile

from django.conf import settings
from django.db import Error as DatabaseError
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from redis import Redis
from redis.exceptions import RedisError

from jobs import lifecycle
from jobs.enums import WAITING, Status
from jobs.models import Job
from simservice.outages import RETRY_SECONDS
from simservice.redis.client import TIMEOUT_SECONDS, RedisOutage, best_effort, redis

# A sorted set, because it contains each member only once: at most one hint.
HINTS = "sim.hints"
# After this time, a slot looks for a job without a hint.
WAIT_SECONDS = 20.0
SWEEP_BATCH = 100
# A younger pending job is still being announced by the request that submitted it.
ANNOUNCED_WITHIN = timedelta(seconds=2)
UNANNOUNCED = Q(status=Status.PENDING, created_at__lt=Now() - ANNOUNCED_WITHIN)
# Whether waiting for hints works in this process.
outage = RedisOutage("idle slots look for jobs every second", recovery="idle slots wait for hints")


def announce(job: Job) -> None:
    """Mark a pending job as queued and wake a slot. During an outage of Redis, the sweep announces the job."""
    best_effort(lambda: _mark_and_wake(job), default=None)


def _mark_and_wake(job: Job) -> None:
    """Mark a pending job as queued, then send a hint, because a claim skips a row that is being written.

    Raises RedisError.
    """
    if lifecycle.mark_queued(job):
        send_hint()


def send_hint() -> bool:
    """Wake an idle slot. Return False if an earlier hint is still in Redis. Raises RedisError."""
    return bool(redis().zadd(HINTS, {"": 0}))


def send_hints(count: int) -> None:
    """Wake up to `count` idle slots. Raises RedisError."""
    redis().zadd(HINTS, {str(number or ""): 0 for number in range(count)})


def wait_for_hint() -> None:
    """Wait for a hint, at most `WAIT_SECONDS`, so that a lost hint only delays a job."""
    client = _waiting_client()
    try:
        client.bzpopmin(HINTS, timeout=WAIT_SECONDS)
    except RedisError as error:
        outage.record_failure(error)
        # After a failover, an old connection still leads to the read-only server, so new ones are opened.
        client.connection_pool.disconnect(inuse_connections=False)
        time.sleep(RETRY_SECONDS)
    else:
        outage.record_success()


def interrupt_waits() -> None:
    """Interrupt the waits of this worker's slots, so that they notice that it stops. Raises RedisError."""
    for client in redis().client_list(_type="normal"):
        if client["name"] == _client_name():
            redis().client_unblock(int(client["id"]))


def _client_name() -> str:
    """Return the name of this worker's idle slots in Redis.

    Workers in different containers can have the same name. Their slots then only wait again after an interruption.
    """
    return f"slots:{socket.gethostname()}:{os.getpid()}"


@cache
def _waiting_client() -> "Redis":
    """Return the Redis client of idle slots. Its timeout is longer than their wait."""
    return Redis.from_url(
        settings.REDIS_URL,
        client_name=_client_name(),
        socket_timeout=WAIT_SECONDS + TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        socket_keepalive=True,
    )


def pass_on() -> None:
    """Wake another idle slot if more jobs wait, because several submissions may have left only one hint.

    If the database or Redis does not respond, the sweep sends a hint.
    """
    with suppress(DatabaseError):
        if _waiting_ids()[:1]:
            best_effort(send_hint, default=False)


def _waiting_ids() -> QuerySet[Job, int]:
    """Return the ids of waiting jobs in the order of the queue, so that PostgreSQL uses their index."""
    return Job.objects.filter(status__in=WAITING).order_by("priority", "id").values_list("id", flat=True)


def unannounced() -> QuerySet[Job]:
    """Return pending jobs whose announcement was lost."""
    return Job.objects.filter(UNANNOUNCED)


def announce_pending() -> int:
    """Announce a batch of pending jobs whose announcement was lost. Return how many."""
    jobs = list(unannounced().order_by("id")[:SWEEP_BATCH])
    for job in jobs:
        announce(job)
    return len(jobs)


def replenish_hints() -> int:
    """Wake an idle slot for each of up to 100 waiting jobs. Return how many hints were sent. Raises RedisError.

    Without these hints, idle slots would not notice waiting jobs after Redis lost its data. Stop at the first hint
    that is still in Redis, because then no slot is idle.
    """
    waiting = _waiting_ids()[:SWEEP_BATCH].count()
    return sum(takewhile(bool, (send_hint() for _ in range(waiting))))
