"""Retention of webhook events, and events that cannot be delivered."""

import pytest

from tests.webhooks.helpers import make_event_in
from webhooks import maintenance, tasks
from webhooks.models import Delivery, Endpoint, Event

pytestmark = pytest.mark.django_db


def test_ended_events_are_deleted_after_the_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    for state in ("delivered", "failed", "delivered"):
        make_event_in(state, days_ago=30.1)
    remaining = [
        make_event_in("waiting", days_ago=31),
        make_event_in("sending", days_ago=31),
        make_event_in("failed", days_ago=29.9),
    ]
    monkeypatch.setattr(maintenance, "BATCH", 2)
    assert [maintenance.delete_old_events() for _ in range(3)] == [2, 1, 0]
    assert list(Event.objects.order_by("id")) == remaining
    assert set(Delivery.objects.values_list("event", flat=True)) == {event.pk for event in remaining}


def test_old_events_are_deleted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "BATCH", 2)
    for _ in range(5):
        make_event_in("delivered", days_ago=31)
    tasks.maintain()
    assert not Event.objects.exists()


def test_undeliverable_events_fail_500_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert maintenance.FAILED_AT_ONCE == 500
    for _ in range(3):
        make_event_in("waiting", days_ago=1)
    Endpoint.objects.all().delete()
    monkeypatch.setattr(maintenance, "FAILED_AT_ONCE", 2)
    assert [maintenance.fail_undeliverable() for _ in range(3)] == [2, 1, 0]
