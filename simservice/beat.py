"""The scheduler of `celery beat`, several of which can run at the same time."""

from typing import Any, cast

from celery.beat import ScheduleEntry, Scheduler

from simservice.celery import app, send
from simservice.redis.client import best_effort, redis

# The part of a task's interval in which no other scheduler sends it. The rest allows for late clocks.
EXCLUSIVE = 0.9
# No tasks are sent while this many messages wait, because no worker receives them. Messages do not expire, because
# Celery would compare the clocks of the sender and the receiver.
MAX_WAITING = 100


class SharedScheduler(Scheduler):
    """Sends each periodic task once per interval, even if several schedulers are running."""

    def apply_async(self, entry: ScheduleEntry, *_: Any, **__: Any) -> None:
        """Send a task unless its queue is full or another scheduler has sent it in this interval.

        Send nothing during an outage of Redis.
        """
        name, queue = str(entry.name), app.conf.task_default_queue
        seconds = EXCLUSIVE * cast(Any, entry.schedule).run_every.total_seconds()

        def send_once() -> None:
            if int(str(redis().llen(queue))) < MAX_WAITING and is_first(name, seconds=seconds):
                send(str(entry.task), queue=queue)

        best_effort(send_once, default=None)


def is_first(name: str, *, seconds: float) -> bool:
    """Return whether no other call for this name returned True within `seconds`. Raises RedisError."""
    return bool(redis().set(f"beat:{name}", 1, nx=True, px=int(seconds * 1000)))
