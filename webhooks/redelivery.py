"""A client's past events, and resending them on request."""

from collections.abc import Iterable
from datetime import datetime
from enum import Enum

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from clients.models import Client
from webhooks import endpoints
from webhooks.events import announce
from webhooks.models import Event

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
    return sum(_restart_failed(batch) for batch in batches)


def _restart_failed(ids: Iterable[int]) -> int:
    """Resend those of the events that are still failed; return their number."""
    return _restart(Event.objects.filter(pk__in=ids, state=State.FAILED))


def _restart(events: QuerySet[Event]) -> int:
    """Schedule events as if they were new, and announce them; return their number."""
    with transaction.atomic():
        restarted = events.update(**_NEW_SCHEDULE)
        if restarted:
            transaction.on_commit(announce)
    return restarted
