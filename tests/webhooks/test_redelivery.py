"""Sending again what was given up, and what was not."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from clients.audit import SYSTEM
from clients.models import Client
from tests.factories import make_account, make_client
from tests.webhooks.receivers import Receiver
from tests.webhooks.test_claims import write
from webhooks import endpoints, redelivery, tasks
from webhooks.delivery import claim
from webhooks.dispatcher import lanes
from webhooks.endpoints import NotPossible
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


def give_up(client: Client, receiver: Receiver, *, count: int) -> None:
    """Let events of a client be rejected."""
    endpoints.set_url(client, receiver.url("/400"), by=SYSTEM)
    write(client, count)
    for _ in range(count):
        tasks.deliver()
    endpoints.set_url(client, receiver.url("/200"), by=SYSTEM)
    receiver.received.clear()


def test_an_event_is_sent_again_under_its_id(hooked: tuple[Client, str], receiver: Receiver) -> None:
    give_up(hooked[0], receiver, count=1)
    event = Event.objects.get()
    assert event.state == "failed"
    for times in (1, 2):
        assert redelivery.redeliver(event)
        tasks.deliver()
        assert receiver.events() == [event.name] * times
    event.refresh_from_db()
    assert (event.state, event.failure, event.failures) == ("delivered", "", 0)
    assert event.deliveries.count() == 3


def test_an_event_that_waits_is_sent_at_once(hooked: tuple[Client, str], receiver: Receiver) -> None:
    write(hooked[0], 1)
    Event.objects.update(next_attempt_at=Now() + timedelta(days=1), failures=7)
    assert redelivery.redeliver(Event.objects.get())
    tasks.deliver()
    assert len(receiver.received) == 1


def test_an_event_that_is_being_sent_is_left_alone(hooked: tuple[Client, str]) -> None:
    write(hooked[0], 1)
    assert len(claim(lanes()[0], room=1)) == 1
    assert not redelivery.redeliver(Event.objects.get())


def test_all_failed_events_of_a_period_are_sent_again(
    hooked: tuple[Client, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redelivery, "BATCH", 2)
    client, _ = hooked
    give_up(client, receiver, count=5)
    write(client, 1)
    tasks.deliver()
    other = make_client(make_account())
    endpoints.configure(other, receiver.url("/400"), by=SYSTEM)
    write(other, 1)
    tasks.deliver()
    old = Event.objects.filter(client=client).earliest("id")
    Event.objects.filter(pk=old.pk).update(created_at=Now() - timedelta(days=3))
    receiver.received.clear()
    since = timezone.now() - timedelta(days=1)
    assert redelivery.redeliver_failed(client, since=since, until=timezone.now()) == 4
    assert redelivery.redeliver_failed(client, since=since, until=timezone.now()) == 0
    tasks.deliver()
    assert len(set(receiver.events())) == len(receiver.received) == 4
    assert list(Event.objects.filter(state="failed").values_list("client", flat=True).order_by("client")) == sorted(
        [client.pk, other.pk]
    )


def test_nothing_is_sent_again_to_a_disabled_endpoint(hooked: tuple[Client, str], receiver: Receiver) -> None:
    give_up(hooked[0], receiver, count=1)
    endpoints.disable(hooked[0], by=SYSTEM)
    event = Event.objects.get()
    with pytest.raises(NotPossible):
        redelivery.redeliver(event)
    with pytest.raises(NotPossible):
        redelivery.redeliver_failed(hooked[0], since=event.created_at, until=timezone.now())
    assert Event.objects.get().state == "failed"


def test_a_clients_events_are_listed_newest_first(hooked: tuple[Client, str]) -> None:
    write(hooked[0], 3)
    write(make_client(make_account()), 1)
    listed = list(redelivery.events_of(hooked[0]))
    assert [event.pk for event in listed] == sorted((event.pk for event in listed), reverse=True)
    assert len(listed) == 3
    assert redelivery.event_of(hooked[0], listed[1].name) == listed[1]
    assert redelivery.event_of(make_client(make_account()), listed[1].name) is None
