"""Outbox of webhook events: written with the change that they report, announced after the commit."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, Min, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from clients.models import Client
from simservice.api.times import iso
from simservice.celery import send
from simservice.postgresql.statements import load
from simservice.redis.client import best_effort, redis
from webhooks import endpoints
from webhooks.models import Event, event_name

QUEUE = "webhooks"
# More messages than this would not wake any further worker.
MAX_ANNOUNCEMENTS = 10
KIND, VERSION = "job.terminal", "v1"
SQL = load(__file__)


def parameters(payload: Mapping[str, Any] | None, *, kind: str = KIND) -> dict[str, Any]:
    """Return the parameters of `inserted_event` for a payload; without one, no job may be in `notifying`.

    The body's format: `docs/reference/webhooks.md#the-request`.
    """
    if payload is None:
        return {"event_name": None, "event_body": None}
    body = {"kind": kind, "version": VERSION, "timestamp": iso(timezone.now()), "payload": payload}
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return {"event_name": event_name(), "event_body": text.encode()}


def record(client_id: int, *, job_id: int | None, payload: Mapping[str, Any], kind: str = KIND) -> Event:
    """Insert an event for a client in the caller's transaction, and announce it after the commit."""
    fields = parameters(payload, kind=kind)
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
    """Return the events that should have been sent by now, counted up to a limit."""
    times = due().order_by("next_attempt_at").values("next_attempt_at")[:limit]
    found = times.aggregate(count=Count("*"), age=Now() - Min("next_attempt_at"))
    return Backlog(found["count"], found["age"] or timedelta())


def due() -> QuerySet[Event]:
    """Return the events whose next attempt is due."""
    return Event.objects.filter(state=Event.State.WAITING, next_attempt_at__lte=Now())


State = Event.State
BATCH = 1_000
_NEW_SCHEDULE = {"state": State.WAITING, "failure": "", "failures": 0, "next_attempt_at": Now(), "ended_at": None}


class Redelivery(Enum):
    """What became of a request to resend an event."""

    # It is due now, at the beginning of its retry schedule.
    SCHEDULED = "scheduled"
    # A worker is sending it at the moment, so nothing changed.
    IN_FLIGHT = "in_flight"
    # It was deleted at the end of its retention period.
    GONE = "gone"


def events_of(client: Client) -> QuerySet[Event]:
    """Return a client's events, the newest first; each has its attempts as `deliveries`."""
    return Event.objects.filter(client=client).order_by("-id")


def redeliver(event: Event) -> Redelivery:
    """Resend an event under its own id, with a new retry schedule.

    An event that waits for a retry is sent at once. Raises endpoints.EndpointError if no endpoint is enabled.
    """
    endpoints.require_enabled(event.client)
    row = Event.objects.filter(pk=event.pk)
    if _restart(row.exclude(state=State.SENDING)):
        return Redelivery.SCHEDULED
    return Redelivery.IN_FLIGHT if row.exists() else Redelivery.GONE


def redeliver_failed(client: Client, *, since: datetime, until: datetime) -> int:
    """Resend all failed events that were created in a period; return their number.

    Raises endpoints.EndpointError if no endpoint is enabled.
    """
    endpoints.require_enabled(client)
    failed = Event.objects.filter(client=client, state=State.FAILED, created_at__gte=since, created_at__lt=until)
    # Listed before the first is resent, so that an event that fails again meanwhile is resent only once.
    ids = list(failed.order_by("created_at").values_list("pk", flat=True))
    batches = (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
    return sum(_restart(Event.objects.filter(pk__in=batch, state=State.FAILED)) for batch in batches)


def _restart(events: QuerySet[Event]) -> int:
    """Schedule events as if they were new, and announce them; return their number."""
    with transaction.atomic():
        restarted = events.update(**_NEW_SCHEDULE)
        if restarted:
            transaction.on_commit(announce)
    return restarted
