"""Gauges of webhook deliveries."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from tests.jobs.plans import plan_of
from tests.webhooks.helpers import make_client_with_events, make_event_in
from webhooks import events
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
    assert 7 <= values["oldest_due_seconds"] < 60
    assert (values["attemptsdelivered"], values["attemptsfailed"], values["attemptsrejected"]) == (1, 1, 0)
    assert len(queries) == 3


def test_due_events_are_counted_in_an_index_only() -> None:
    make_client_with_events(3)
    with CaptureQueriesContext(connection) as queries:
        assert (events.backlog().size, events.backlog(limit=2).size) == (3, 2)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
    plans = [plan_of(query["sql"]) for query in queries]
    assert [("Index Only Scan", "webhooks_event", "event_waiting") in plan.nodes for plan in plans] == [True, True]


def test_the_gauges_are_zero_without_events() -> None:
    assert set(gauges().values()) == {0}
