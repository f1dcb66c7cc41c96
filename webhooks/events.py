"""Outbox of webhook events: written with the change that they report, announced after the commit."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, Min, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from simservice.api.times import iso
from simservice.celery import send
from simservice.postgresql.statements import load
from simservice.redis.client import best_effort, redis
from webhooks.models import Event, event_name

QUEUE = "webhooks"
# More messages than this would not wake any further worker.
MAX_ANNOUNCEMENTS = 10
KIND, VERSION = "job.terminal", "v1"
SQL = load(__file__)


def parameters(payload: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of `inserted_event` for a payload; without one, no job may be in `notifying`.

    The body's format: `docs/reference/webhooks.md#the-request`.
    """
    if payload is None:
        return {"event_name": None, "event_body": None}
    body = {"kind": KIND, "version": VERSION, "timestamp": iso(timezone.now()), "payload": payload}
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return {"event_name": event_name(), "event_body": text.encode()}


def record(client_id: int, *, job_id: int | None, payload: Mapping[str, Any]) -> Event:
    """Insert an event for a client in the caller's transaction, and announce it after the commit."""
    fields = parameters(payload)
    event = Event.objects.create(
        client_id=client_id,
        job_id=job_id,
        name=fields["event_name"],
        body=fields["event_body"],
        created_at=Now(),
        next_attempt_at=Now(),
    )
    transaction.on_commit(announce)
    return event


def announce() -> None:
    """Wake a delivery worker. If the message is lost, the sweep announces due events again."""
    best_effort(_wake, default=None)


def _wake() -> None:
    """Send a message unless `MAX_ANNOUNCEMENTS` are waiting. Raises RedisError."""
    if int(str(redis().llen(QUEUE))) < MAX_ANNOUNCEMENTS:
        send("webhooks.tasks.deliver", queue=QUEUE)


class Backlog(NamedTuple):
    """How many events are due, and how long the oldest of them has been due."""

    size: int
    age: timedelta


def backlog(*, limit: int | None = None) -> Backlog:
    """Return the events that should have been sent by now, counted up to a limit. One query on an index."""
    times = due().order_by("next_attempt_at").values("next_attempt_at")[:limit]
    found = times.aggregate(count=Count("*"), age=Now() - Min("next_attempt_at"))
    return Backlog(found["count"], found["age"] or timedelta())


def due() -> QuerySet[Event]:
    """Return the events whose next attempt is due."""
    return Event.objects.filter(state=Event.State.WAITING, next_attempt_at__lte=Now())
