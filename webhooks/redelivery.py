"""Sending events again because somebody wants it, and looking back at what was sent."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from clients.models import Client
from webhooks import endpoints
from webhooks.events import announce
from webhooks.models import Event

State = Event.State
BATCH = 1_000
AFRESH = {"state": State.WAITING, "failure": "", "failures": 0, "next_attempt_at": Now(), "ended_at": None}


def events_of(client: Client) -> QuerySet[Event]:
    """Return a client's events, newest first; each knows its attempts as `deliveries`."""
    return Event.objects.filter(client=client).order_by("-id")


def event_of(client: Client, name: str) -> Event | None:
    """Return a client's event by its id, `evt_…`, or None."""
    return events_of(client).filter(name=name).first()


def failed_of(client: Client, *, since: datetime, until: datetime) -> QuerySet[Event]:
    """Return a client's events of a period that were given up."""
    return Event.objects.filter(client=client, state=State.FAILED, created_at__gte=since, created_at__lt=until)


def redeliver(event: Event) -> bool:
    """Send an event again, under its own id and with a schedule of its own; False while it is being sent.

    One that waits for its next attempt is sent at once. Raises endpoints.NotPossible unless there is where to.
    """
    endpoints.require_enabled(event.client)
    return bool(restart(Event.objects.filter(pk=event.pk).exclude(state=State.SENDING)))


def redeliver_failed(client: Client, *, since: datetime, until: datetime) -> int:
    """Send all events again that were given up of those created in a period; return how many.

    Raises endpoints.NotPossible unless there is where to.
    """
    endpoints.require_enabled(client)
    failed = failed_of(client, since=since, until=until).order_by("created_at")
    # Listed before the first is sent again: what fails once more meanwhile is not sent for ever.
    wanted = list(failed.values_list("pk", flat=True))
    batches = (wanted[start : start + BATCH] for start in range(0, len(wanted), BATCH))
    return sum(restart_failed(batch) for batch in batches)


def restart_failed(ids: Iterable[int]) -> int:
    """Send those of the events again that are still given up; return how many."""
    return restart(Event.objects.filter(pk__in=ids, state=State.FAILED))


def restart(events: QuerySet[Event]) -> int:
    """Put events back to the beginning of their schedule, due now, and announce them."""
    with transaction.atomic():
        restarted = events.update(**AFRESH)
        if restarted:
            transaction.on_commit(announce)
    return restarted
