"""Outbox of webhook events: written with the change that they report, announced after the commit."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from kombu.exceptions import OperationalError

from simservice.api.times import iso
from simservice.celery import app
from simservice.redis.client import best_effort, redis
from webhooks.models import Event

logger = logging.getLogger(__name__)

QUEUE = "webhooks"
# More messages than this would not wake any further worker.
MAX_ANNOUNCEMENTS = 10
KIND, VERSION = "job.terminal", "v1"


def record(client_id: int, *, job_id: int | None, payload: Mapping[str, Any]) -> Event:
    """Insert an event for a client in the caller's transaction, and announce it after the commit.

    The body's format: `docs/reference/contract.md#webhook-events`.
    """
    now = timezone.now()
    body = {"kind": KIND, "version": VERSION, "timestamp": iso(now), "payload": payload}
    event = Event.objects.create(
        client_id=client_id,
        job_id=job_id,
        body=json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(),
        created_at=now,
        # The database's clock decides what is due.
        next_attempt_at=Now(),
    )
    transaction.on_commit(announce)
    return event


def announce() -> None:
    """Wake a delivery worker. If the message is lost, the sweep announces due events again."""
    waiting = best_effort(lambda: int(str(redis().llen(QUEUE))), default=None)
    if waiting is None or waiting >= MAX_ANNOUNCEMENTS:
        return
    try:
        app.send_task("webhooks.tasks.deliver", queue=QUEUE)
    except OperationalError:
        logger.warning("cannot announce webhook events: the broker is unavailable")


def due() -> QuerySet[Event]:
    """Return the events whose next attempt is due."""
    return Event.objects.filter(state=Event.State.WAITING, next_attempt_at__lte=Now())
