"""Celery tasks for webhooks: delivery, announcements and maintenance."""

import logging
import threading
from collections.abc import Callable
from itertools import takewhile
from typing import Any

from celery.signals import worker_shutting_down
from django.db import Error as DatabaseError

from simservice import clocks
from simservice.celery import app
from webhooks import events, low_credits, maintenance, retries
from webhooks.dispatcher import Dispatcher

logger = logging.getLogger(__name__)

MAX_BATCHES = 20
stop = threading.Event()


@worker_shutting_down.connect
def stop_delivering(**_: Any) -> None:
    """Claim no further events; the requests in flight are completed and recorded."""
    stop.set()


@app.task(name="webhooks.tasks.deliver")
def deliver() -> None:
    """Deliver due events until there are none."""
    try:
        Dispatcher(stop).run()
    except DatabaseError:
        logger.exception("webhook deliveries stopped: the database is unavailable")


def announce_due() -> None:
    """Recover events of lost workers, and announce due events if their announcement may be lost, in each sweep."""
    try:
        if not retries.is_sweep_needed():
            return
        lost = retries.recover_lost()
        if events.due().exists():
            events.announce()
    except DatabaseError:
        logger.exception("cannot announce due webhook events: the database is unavailable")
        return
    if lost:
        logger.warning("%s deliveries lost with their worker, to be retried", lost)


@app.task(name="webhooks.tasks.maintain")
def maintain() -> None:
    """Fail events that cannot be sent, delete old data, and notify owners of disabled webhooks."""
    try:
        if not clocks.is_right():
            return
        done = {
            "events failed": _in_batches(maintenance.fail_undeliverable),
            "events deleted": _in_batches(maintenance.delete_old_events),
            "old secrets deleted": _in_batches(maintenance.delete_old_secrets),
        }
        done["owners notified"] = maintenance.notify_owners()
    except DatabaseError:
        logger.exception("webhook maintenance postponed: the database is unavailable")
        return
    except OSError:
        logger.warning("owners of disabled webhooks not notified: the mail server is unavailable", exc_info=True)
        return
    if any(done.values()):
        logger.info("webhooks: %s", ", ".join(f"{name} {count}" for name, count in done.items() if count))


@app.task(name="webhooks.tasks.report_low_credits")
def report_low_credits() -> None:
    """Record the accounts whose credits dropped below their threshold, and notify the owners."""
    try:
        fallen = low_credits.compare_all()
        low_credits.notify_owners()
    except DatabaseError:
        logger.exception("low-credit notices postponed: the database is unavailable")
        return
    except OSError:
        logger.warning("owners not notified of low credits: the mail server is unavailable", exc_info=True)
        return
    if fallen:
        logger.info("credits of %s accounts dropped below their threshold", fallen)


def _in_batches(step: Callable[[], int]) -> int:
    """Repeat a step until it finds nothing more to do, at most `MAX_BATCHES` times; return the total."""
    return sum(takewhile(bool, (step() for _ in range(MAX_BATCHES))))
