"""What clients are told: an event is written together with what it tells of, and announced after the commit."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from kombu.exceptions import OperationalError

from simservice.api.fields import iso
from simservice.celery import app
from simservice.redis.client import ask, redis
from webhooks.models import Event

logger = logging.getLogger(__name__)

QUEUE = "webhooks"
# More hints than this would wake no worker that is not awake.
MOST_HINTS = 10
KIND, VERSION = "job.terminal", "v1"


def record(client_id: int, *, job_id: int | None, payload: Mapping[str, Any]) -> Event:
    """Write an event for a client inside the caller's transaction, and announce it after the commit."""
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
    """Tell the delivery workers that something is due. A lost announcement is made again by the sweep."""
    waiting = ask(lambda: int(str(redis().llen(QUEUE))), otherwise=None)
    if waiting is None or waiting >= MOST_HINTS:
        return
    try:
        app.send_task("webhooks.tasks.deliver", queue=QUEUE)
    except OperationalError:
        logger.warning("deliveries not announced: the broker does not answer")
