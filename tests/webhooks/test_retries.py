"""Outcomes of responses, and the schedule of retries."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from clients.audit import SYSTEM
from clients.models import Client
from tests.webhooks.helpers import end_job
from tests.webhooks.receivers import Receiver
from webhooks import endpoints, tasks
from webhooks.http_client import Problem, Response
from webhooks.models import Delivery, Event
from webhooks.retries import WAITS, decide

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DELIVERED = [200, 201, 202, 204, 226, 299]
TEMPORARY = [408, 429, 500, 502, 503, 504, 599]
PERMANENT = [
    300,
    301,
    302,
    303,
    304,
    307,
    308,
    400,
    401,
    403,
    404,
    405,
    407,
    409,
    410,
    418,
    422,
    425,
    428,
    451,
    499,
]


def seconds(response: Response, failures: int = 0) -> float:
    """Return the wait before the retry."""
    decision = decide(response, failures=failures, now=NOW)
    assert decision.wait is not None
    return decision.wait.total_seconds()


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(s, "delivered") for s in DELIVERED]
    + [(s, "failed") for s in TEMPORARY]
    + [(s, "rejected") for s in PERMANENT],
)
def test_the_status_determines_the_outcome(status: int, outcome: str) -> None:
    decision = decide(Response(status=status), failures=0, now=NOW)
    assert (decision.outcome, decision.wait is not None) == (outcome, outcome == "failed")


@pytest.mark.parametrize("problem", Problem)
@pytest.mark.parametrize("status", [None, 200, 400])
def test_an_incomplete_response_is_retried(problem: Problem, status: int | None) -> None:
    decision = decide(Response(problem=problem, status=status), failures=0, now=NOW)
    assert decision.outcome == "failed"
    assert decision.wait is not None


def test_ten_retries_take_two_to_three_days() -> None:
    assert len(WAITS) == 10
    assert timedelta(days=2) < sum(WAITS, timedelta()) * 0.8 + timedelta(hours=8)
    assert [w.total_seconds() for w in WAITS] == [5, 30, 120, 600, 1800, 7200, 18000, 36000, 50400, 86400]


@pytest.mark.parametrize("failures", range(10))
def test_waits_vary_by_twenty_percent(failures: int) -> None:
    step = WAITS[failures].total_seconds()
    waits = [seconds(Response(status=500), failures) for _ in range(300)]
    assert step * 0.8 <= min(waits) < step * 0.85
    assert step * 1.15 < max(waits) <= step * 1.2


def test_the_last_failure_is_not_retried() -> None:
    assert decide(Response(status=500), failures=10, now=NOW).wait is None


@pytest.mark.parametrize(
    ("text", "minimum", "maximum"),
    [
        ("20", 20, 20),
        ("30", 30, 30),
        ("31", 30, 30),
        ("999999999999999999999", 30, 30),
        ("0", 4, 6),
        ("-20", 4, 6),
        ("soon", 4, 6),
        ("", 4, 6),
        ("20.5", 4, 6),
        ("\u0662\u0660", 4, 6),
        (format_datetime(NOW + timedelta(seconds=20), usegmt=True), 20, 20),
        (format_datetime(NOW + timedelta(days=20), usegmt=True), 30, 30),
        (format_datetime(NOW - timedelta(days=20), usegmt=True), 4, 6),
        ("Fri, 20 Nov 2026 12:00:20", 20, 20),
        ("Fri, 99 Nov 2026 12:00:20 GMT", 4, 6),
        ("Fri, 20 Nov 0000 12:00:20 GMT", 4, 6),
    ],
)
def test_retry_after_can_extend_a_wait_to_the_next_step(text: str, minimum: int, maximum: int) -> None:
    for status in (408, 429, 500, 503):
        assert minimum <= seconds(Response(status=status, retry_after=text)) <= maximum


def test_retry_after_cannot_extend_the_last_wait() -> None:
    wait = seconds(Response(status=503, retry_after="999999"), failures=9)
    assert 86400 <= wait <= 86400 * 1.2


def attempt_now() -> timedelta:
    """Make the next attempt now, and return how long the wait would have been."""
    due_at, now = Event.objects.get().next_attempt_at, timezone.now()
    assert due_at is not None
    Event.objects.update(next_attempt_at=Now())
    tasks.deliver()
    return due_at - now


@pytest.mark.django_db(transaction=True)
def test_an_event_fails_after_eleven_attempts(configured: tuple[Client, str], receiver: Receiver) -> None:
    client, _ = configured
    endpoints.set_url(client, receiver.url("/503"), by=SYSTEM)
    end_job(client)
    waits = []
    while Event.objects.get().state == "waiting":
        waits.append(attempt_now().total_seconds())
    event = Event.objects.get()
    assert (event.state, event.failure, event.failures) == ("failed", "exhausted", 11)
    assert all(
        0.8 * s.total_seconds() - 2 < w < 1.2 * s.total_seconds() for s, w in zip(WAITS, waits[1:], strict=True)
    )
    assert 1.8 < sum(waits) / 86400 < 2.8
    assert receiver.events() == [event.name] * 11
    assert len({request.headers["X-Service-Delivery-Id"] for request in receiver.received}) == 11
    assert set(Delivery.objects.values_list("outcome", "status")) == {("failed", 503)}
    tasks.deliver()
    assert len(receiver.received) == 11


@pytest.mark.django_db(transaction=True)
def test_a_success_ends_the_retries(configured: tuple[Client, str], receiver: Receiver) -> None:
    client, _ = configured
    endpoints.set_url(client, receiver.url("/500"), by=SYSTEM)
    end_job(client)
    for path in ("/500", "/429", "/408"):
        endpoints.set_url(client, receiver.url(path), by=SYSTEM)
        attempt_now()
    endpoints.set_url(client, receiver.url("/204"), by=SYSTEM)
    attempt_now()
    assert (Event.objects.get().state, Event.objects.get().failures) == ("delivered", 3)
    assert list(Delivery.objects.order_by("id").values_list("status", flat=True)) == [500, 429, 408, 204]
    assert len(set(receiver.events())) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "excerpt"), [("/400", '{"thanks": true}'), ("/301", ""), ("/410", '{"thanks": true}')]
)
def test_a_permanent_failure_is_not_retried(
    path: str, excerpt: str, configured: tuple[Client, str], receiver: Receiver
) -> None:
    endpoints.set_url(configured[0], receiver.url(path), by=SYSTEM)
    end_job(configured[0])
    tasks.deliver()
    event, delivery = Event.objects.get(), Delivery.objects.get()
    assert (event.state, event.failure, delivery.outcome) == ("failed", "rejected", "rejected")
    assert delivery.excerpt == excerpt


@pytest.mark.django_db(transaction=True)
def test_the_log_stores_two_kilobytes_of_a_response(configured: tuple[Client, str], receiver: Receiver) -> None:
    endpoints.set_url(configured[0], receiver.url("/huge"), by=SYSTEM)
    end_job(configured[0])
    tasks.deliver()
    delivery = Delivery.objects.get()
    assert delivery.outcome == "delivered"
    assert 2046 <= len(delivery.excerpt.encode()) <= 2048
