"""The schedule of periodic tasks, in a thread of a `control` worker."""

import logging
import os
import signal
import threading
from datetime import timedelta
from typing import Any, cast

from celery.beat import ScheduleEntry, Scheduler, Service
from celery.signals import worker_ready

from simservice.celery import app
from simservice.redis.client import best_effort, redis

logger = logging.getLogger(__name__)

MAX_SLEEP_SECONDS = 60
# Part of its interval for which nobody else sends a task. The rest is for clocks and threads that are late.
EXCLUSIVE = 0.9


class SharedScheduler(Scheduler):
    """Sends each periodic task once per interval, however many workers run a schedule."""

    def apply_async(self, entry: ScheduleEntry, *args: Any, **kwargs: Any) -> Any:
        """Send a task, unless another worker sent it in this interval. Return its result, or None."""
        interval: timedelta = cast(Any, entry.schedule).run_every
        if not is_first(str(entry.name), seconds=interval.total_seconds() * EXCLUSIVE):
            return None
        return super().apply_async(entry, *args, **kwargs)


def is_first(name: str, *, seconds: float) -> bool:
    """Return whether no worker has asked for this task for some seconds. True if Redis does not respond."""
    key, milliseconds = f"beat:{name}", int(seconds * 1000)
    return best_effort(lambda: bool(redis().set(key, 1, nx=True, px=milliseconds)), default=True)


def start_when_ready() -> None:
    """Start the schedule once this process's worker takes tasks. It ends with the process."""
    worker_ready.connect(_start)


def _start(**_: Any) -> None:
    service = Service(app, max_interval=MAX_SLEEP_SECONDS, scheduler_cls=SharedScheduler)
    threading.Thread(target=_run, args=[service], name="beat", daemon=True).start()


def _run(service: Service) -> None:
    """Run a schedule. If it ends, ask the worker to stop, because a restart also restarts the schedule."""
    try:
        service.start()
    except Exception:
        logger.exception("the schedule of periodic tasks failed")
    os.kill(os.getpid(), signal.SIGTERM)
