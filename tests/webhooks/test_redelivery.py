"""Resending events."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from clients.audit import SYSTEM
from clients.models import Client
from tests.factories import make_account, make_client
from tests.webhooks.helpers import write_events
from tests.webhooks.receivers import Receiver
from webhooks import endpoints, events, tasks
from webhooks.claims import claim_deliveries
from webhooks.dispatcher import pools
from webhooks.endpoints import EndpointError
from webhooks.events import Redelivery
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


def make_rejected_events(client: Client, receiver: Receiver, *, count: int) -> None:
    """Let the receiver reject events of a client."""
    endpoints.set_url(client, receiver.url("/400"), by=SYSTEM)
    write_events(client, count)
    for _ in range(count):
        tasks.deliver()
    endpoints.set_url(client, receiver.url("/200"), by=SYSTEM)
    receiver.received.clear()


def test_an_event_is_resent_with_its_id(configured: tuple[Client, str], receiver: Receiver) -> None:
    make_rejected_events(configured[0], receiver, count=1)
    event = Event.objects.get()
    assert event.state == "failed"
    for times in (1, 2):
        assert events.redeliver(event) is Redelivery.SCHEDULED
        tasks.deliver()
        assert receiver.events() == [event.name] * times
    event.refresh_from_db()
    assert (event.state, event.failure, event.failures) == ("delivered", "", 0)
    assert event.deliveries.count() == 3


def test_a_waiting_event_is_resent_at_once(configured: tuple[Client, str], receiver: Receiver) -> None:
    write_events(configured[0], 1)
    Event.objects.update(next_attempt_at=Now() + timedelta(days=1), failures=7)
    assert events.redeliver(Event.objects.get()) is Redelivery.SCHEDULED
    tasks.deliver()
    assert len(receiver.received) == 1


def test_an_event_in_flight_is_not_resent(configured: tuple[Client, str]) -> None:
    write_events(configured[0], 1)
    assert len(claim_deliveries(pools()[0], room=1)) == 1
    assert events.redeliver(Event.objects.get()) is Redelivery.IN_FLIGHT


def test_a_deleted_event_is_not_resent(configured: tuple[Client, str]) -> None:
    write_events(configured[0], 1)
    event = Event.objects.get()
    Event.objects.all().delete()
    assert events.redeliver(event) is Redelivery.GONE


def test_all_failed_events_of_a_period_are_resent(
    configured: tuple[Client, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BATCH", 2)
    client, _ = configured
    make_rejected_events(client, receiver, count=5)
    write_events(client, 1)
    tasks.deliver()
    other = make_client(make_account())
    endpoints.configure(other, receiver.url("/400"), by=SYSTEM)
    write_events(other, 1)
    tasks.deliver()
    old = Event.objects.filter(client=client).earliest("id")
    Event.objects.filter(pk=old.pk).update(created_at=Now() - timedelta(days=3))
    receiver.received.clear()
    since = timezone.now() - timedelta(days=1)
    assert events.redeliver_failed(client, since=since, until=timezone.now()) == 4
    assert events.redeliver_failed(client, since=since, until=timezone.now()) == 0
    tasks.deliver()
    assert len(set(receiver.events())) == len(receiver.received) == 4
    assert list(Event.objects.filter(state="failed").values_list("client", flat=True).order_by("client")) == sorted(
        [client.pk, other.pk]
    )


def test_nothing_is_resent_to_a_disabled_endpoint(configured: tuple[Client, str], receiver: Receiver) -> None:
    make_rejected_events(configured[0], receiver, count=1)
    endpoints.disable(configured[0], by=SYSTEM)
    event = Event.objects.get()
    with pytest.raises(EndpointError):
        events.redeliver(event)
    with pytest.raises(EndpointError):
        events.redeliver_failed(configured[0], since=event.created_at, until=timezone.now())
    assert Event.objects.get().state == "failed"


def test_events_are_listed_newest_first(configured: tuple[Client, str]) -> None:
    write_events(configured[0], 3)
    write_events(make_client(make_account()), 1)
    listed = list(events.events_of(configured[0]))
    assert [event.pk for event in listed] == sorted((event.pk for event in listed), reverse=True)
    assert len(listed) == 3
