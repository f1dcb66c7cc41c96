"""Gauges of webhook deliveries."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from tests.webhooks.helpers import make_client_with_events, make_event_in
from webhooks.metrics import DeliveryCollector
from webhooks.models import Event

pytestmark = pytest.mark.django_db


def gauges() -> dict[str, float]:
    """Return the values of the gauges by name and label."""
    samples = [sample for family in DeliveryCollector().collect() for sample in family.samples]
    return {
        f"{sample.name.removeprefix('simservice_webhooks_')}{''.join(sample.labels.values())}": sample.value
        for sample in samples
    }


def test_the_gauges_count_due_events_and_attempts() -> None:
    make_event_in("delivered", days_ago=0)
    make_event_in("waiting", days_ago=0)
    old = make_event_in("failed", days_ago=0)
    old.deliveries.update(started_at=Now() - timedelta(minutes=6))
    make_client_with_events(2)
    Event.objects.filter(state="waiting", failures=0).update(next_attempt_at=Now() - timedelta(seconds=7))
    with CaptureQueriesContext(connection) as queries:
        values = gauges()
    assert (values["due"], values["failing_endpoints"]) == (2, 2)
    assert 7 <= values["oldest_due_seconds"] < 9
    assert (values["attemptsdelivered"], values["attemptsfailed"], values["attemptsrejected"]) == (1, 1, 0)
    assert len(queries) == 3


def test_the_gauges_are_zero_without_events() -> None:
    assert set(gauges().values()) == {0}
