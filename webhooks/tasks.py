"""Celery's doors into the webhooks: what delivers, what makes good what was lost, what tidies up."""

import logging
import threading
from collections.abc import Callable
from itertools import takewhile
from typing import Any

from celery.signals import worker_shutting_down
from django.db import Error as DatabaseError

from simservice.celery import app
from webhooks import delivery, events, maintenance
from webhooks.dispatcher import Dispatcher

logger = logging.getLogger(__name__)

BATCHES = 20
stop = threading.Event()


@worker_shutting_down.connect
def stop_delivering(**_: Any) -> None:
    """Take nothing further once the worker was asked to stop; requests in flight are written down."""
    stop.set()


@app.task(name="webhooks.tasks.deliver")
def deliver() -> None:
    """Deliver what is due, until nothing is."""
    try:
        Dispatcher(stop).run()
    except DatabaseError:
        logger.exception("deliveries stop until the database answers")


@app.task(name="webhooks.tasks.announce_due")
def announce_due() -> None:
    """Announce what is due, so that no lost announcement and no lost worker keeps an event from being sent."""
    try:
        lost = delivery.recover_lost()
        if delivery.due().exists():
            events.announce()
    except DatabaseError:
        logger.exception("deliveries are announced later: the database does not answer")
        return
    if lost:
        logger.warning("%s deliveries lost with their worker and tried again", lost)


def in_batches(part: Callable[[], int]) -> int:
    """Do a part batch by batch until it finds nothing more, or has had its share of this round; return how many."""
    return sum(takewhile(bool, (part() for _ in range(BATCHES))))


@app.task(name="webhooks.tasks.keep")
def keep() -> None:
    """Give up what cannot be sent, forget what is old, tell owners what was disabled."""
    try:
        done = {
            "given up": in_batches(delivery.give_up_disabled),
            "forgotten": in_batches(maintenance.forget_events),
            "old secrets": in_batches(maintenance.forget_secrets),
        }
        done["owners told"] = maintenance.tell_owners()
    except DatabaseError:
        logger.exception("webhooks are kept later: the database does not answer")
        return
    except OSError:
        logger.warning("owners are told later: the mail server does not answer", exc_info=True)
        return
    if any(done.values()):
        logger.info("webhooks: %s", ", ".join(f"{name} {count}" for name, count in done.items() if count))
