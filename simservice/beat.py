"""The schedule of periodic tasks, in a thread of a `control` worker."""

import logging
import threading
from datetime import timedelta
from typing import Any, cast

from celery.beat import ScheduleEntry, Scheduler, Service
from celery.signals import worker_ready

from simservice.celery import app, stop_failed_worker
from simservice.redis.client import best_effort, redis

logger = logging.getLogger(__name__)

MAX_SLEEP_SECONDS = 60
# The part of a task's interval in which no other worker sends it. The rest allows for late clocks and threads.
EXCLUSIVE = 0.9
# No tasks are sent while this many messages wait, because no worker receives them. Messages do not expire, because
# Celery would compare the clocks of the sender and the receiver.
MAX_WAITING = 100


class SharedScheduler(Scheduler):
    """A scheduler that sends each periodic task once per interval, even if several workers run a schedule."""

    def apply_async(self, entry: ScheduleEntry, *args: Any, **kwargs: Any) -> Any:
        """Send a task, unless another worker sent it in this interval or the queue is full.

        Return its result, or None.
        """
        interval: timedelta = cast(Any, entry.schedule).run_every
        if is_full(app.conf.task_default_queue) or not is_first(
            str(entry.name), seconds=interval.total_seconds() * EXCLUSIVE
        ):
            return None
        return super().apply_async(entry, *args, **kwargs)

    def adjust(self, n: int, drift: float = 0.0) -> float:
        """Return a delay unchanged, so that the schedule sleeps until a task is due.

        By default, Celery wakes up 10 ms earlier and checks the task without a pause until it is due.
        """
        return super().adjust(n, drift)


def is_first(name: str, *, seconds: float) -> bool:
    """Return whether no other call for this name returned True within `seconds`, or Redis does not respond."""
    key, milliseconds = f"beat:{name}", int(seconds * 1000)
    return best_effort(lambda: bool(redis().set(key, 1, nx=True, px=milliseconds)), default=True)


def is_full(queue: str) -> bool:
    """Return whether `MAX_WAITING` messages wait in a queue. False if Redis does not respond."""
    return best_effort(lambda: int(str(redis().llen(queue))) >= MAX_WAITING, default=False)


def start_when_ready() -> None:
    """Start the schedule when this process's worker is ready for tasks. The schedule ends with the process."""
    worker_ready.connect(_start)


def _start(**_: Any) -> None:
    service = Service(app, max_interval=MAX_SLEEP_SECONDS, scheduler_cls=SharedScheduler)
    threading.Thread(target=_run, args=[service], name="beat", daemon=True).start()


def _run(service: Service) -> None:
    """Run a schedule until it fails.

    Then stop the worker, so that the process manager restarts the worker and its schedule.
    """
    try:
        service.start()
    except Exception:
        logger.exception("the schedule of periodic tasks failed")
    stop_failed_worker()
