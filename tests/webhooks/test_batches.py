"""Statements and plans of deliveries, which claim and record many events at once."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from tests.webhooks.helpers import STEADY, make_client_with_events
from webhooks.claims import SQL, Attempt, claim_deliveries
from webhooks.http_client import Response
from webhooks.models import Delivery, Endpoint, Event
from webhooks.retries import record_responses

pytestmark = pytest.mark.django_db

COPY_EVENTS = """
    INSERT INTO webhooks_event
        (name, client_id, body, created_at, state, failure, failures, next_attempt_at, ended_at)
    SELECT 'copy-' || event.id || '-' || n, client_id, body, created_at,
        CASE WHEN n <= %(waiting)s THEN 'waiting' ELSE 'delivered' END, '', 0,
        CASE WHEN n <= %(waiting)s THEN now() END, CASE WHEN n > %(waiting)s THEN now() END
    FROM webhooks_event AS event, generate_series(1, %(waiting)s + %(ended)s) AS n
    WHERE event.name NOT LIKE 'copy-%%'
"""


def count_statements(attempts: list[Attempt], status: int) -> int:
    """Record the same response to attempts; return the number of statements."""
    with CaptureQueriesContext(connection) as queries:
        record_responses([(attempt, Response(status=status, duration_ms=5)) for attempt in attempts])
    return len([query for query in queries if "SAVEPOINT" not in query["sql"]])


@pytest.mark.parametrize("clients", [1, 5, 12])
def test_a_claim_takes_six_statements(clients: int) -> None:
    for _ in range(clients):
        make_client_with_events(4)
    with CaptureQueriesContext(connection) as queries:
        attempts = claim_deliveries(STEADY, room=48)
    assert len(attempts) == clients * 4
    assert len([query for query in queries if "SAVEPOINT" not in query["sql"]]) == 6


def test_a_claim_without_due_events_takes_one_statement() -> None:
    make_client_with_events(2)
    Event.objects.update(next_attempt_at=Now() + timedelta(hours=1))
    with CaptureQueriesContext(connection) as queries:
        assert claim_deliveries(STEADY, room=48) == []
    assert len([query for query in queries if "SAVEPOINT" not in query["sql"]]) == 1


@pytest.mark.parametrize("clients", [1, 5, 12])
def test_recording_successes_takes_four_statements(clients: int) -> None:
    for _ in range(clients):
        make_client_with_events(4)
    assert count_statements(claim_deliveries(STEADY, room=48), 200) == 4
    assert set(Event.objects.values_list("state", flat=True)) == {"delivered"}


@pytest.mark.parametrize(("status", "state"), [(500, "waiting"), (400, "failed")])
def test_failures_take_one_statement_more_for_each_endpoint(status: int, state: str) -> None:
    for _ in range(3):
        make_client_with_events(4)
    assert count_statements(claim_deliveries(STEADY, room=48), status) == 4 + 3
    assert set(Event.objects.values_list("state", "failures")) == {(state, 1)}
    assert not Endpoint.objects.filter(failing_since=None).exists()


def test_a_batch_records_each_response() -> None:
    client = make_client_with_events(4)
    attempts = claim_deliveries(STEADY, room=4)
    responses = [
        Response(status=200, duration_ms=1, address="2001:db8::1", body=b"a\0'{\"\xff"),
        Response(status=500, duration_ms=2, address="192.0.2.1"),
        Response(status=410, duration_ms=3),
        Response(problem="tls", detail="Not, \"valid\" {NULL} 'x' \\ %s", duration_ms=4),
    ]
    record_responses(list(zip(attempts, responses, strict=True)))
    logged = Delivery.objects.order_by("duration_ms")
    assert list(logged.values_list("outcome", "address", "status", "problem", "detail", "excerpt")) == [
        ("delivered", "2001:db8::1", 200, "", "", "a\ufffd'{\"\ufffd"),
        ("failed", "192.0.2.1", 500, "", "", ""),
        ("rejected", "", 410, "", "", ""),
        ("failed", "", None, "tls", "Not, \"valid\" {NULL} 'x' \\ %s", ""),
    ]
    in_order = [Event.objects.get(pk=attempt.event_id) for attempt in attempts]
    assert [(event.state, event.failure, event.failures) for event in in_order] == [
        ("delivered", "", 0),
        ("waiting", "", 1),
        ("failed", "rejected", 1),
        ("waiting", "", 1),
    ]
    assert not Event.objects.filter(client=client, lease_expires_at__isnull=False).exists()


def explain(sql: str, parameters: Any) -> tuple[set[str], set[str], int]:
    """Execute a statement twice; return the scanned indexes and tables of the second one, and the pages it read."""
    with connection.cursor() as cursor:
        for _ in range(2):
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", parameters)
            (explained,) = cursor.fetchone()
    root = (explained if isinstance(explained, list) else json.loads(explained))[0]["Plan"]
    nodes, rest = [], [root]
    while rest:
        nodes.append(rest.pop())
        rest += nodes[-1].get("Plans", [])
    indexes = {node["Index Name"] for node in nodes if "Index Name" in node}
    tables = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
    return indexes, tables, root["Shared Hit Blocks"] + root["Shared Read Blocks"]


@pytest.fixture
def clients() -> list[int]:
    """Five clients with a thousand waiting and a thousand delivered events each."""
    made = [make_client_with_events(1).pk for _ in range(5)]
    with connection.cursor() as cursor:
        cursor.execute(COPY_EVENTS, {"waiting": 1000, "ended": 1000})
        cursor.execute("ANALYZE webhooks_event, webhooks_endpoint, clients_client")
    return made


def test_candidates_are_found_with_one_search_for_each_client(clients: list[int]) -> None:
    limits = {"failing": False, "per_client": 4, "per_account": 12, "spare": timedelta(seconds=1), "room": 48}
    indexes, scanned, pages = explain(SQL["candidates"], limits)
    assert "event_waiting_by_client" in indexes
    assert "webhooks_event" not in scanned
    assert pages < 100


def test_due_events_are_read_by_an_index(clients: list[int]) -> None:
    indexes, scanned, pages = explain(SQL["next_due"], [clients, 4])
    assert indexes == {"event_waiting_by_client"}
    assert scanned == set()
    assert pages < 200
