"""What each answer means for an event, and when it is tried again."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from clients.audit import SYSTEM
from clients.models import Client
from tests.webhooks.receivers import Receiver
from tests.webhooks.test_delivery import end_job
from webhooks import endpoints, tasks
from webhooks.http_client import Answer, Problem
from webhooks.models import Delivery, Event
from webhooks.retries import WAITS, judge

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DELIVERED = [200, 201, 202, 204, 226, 299]
PASSING = [408, 429, 500, 502, 503, 504, 599]
FINAL = [300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 407, 409, 410, 418, 422, 425, 428, 451, 499]


def seconds(answer: Answer, failures: int = 0) -> float:
    """Return the wait that follows an answer."""
    verdict = judge(answer, failures=failures, now=NOW)
    assert verdict.wait is not None
    return verdict.wait.total_seconds()


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(s, "delivered") for s in DELIVERED] + [(s, "failed") for s in PASSING] + [(s, "rejected") for s in FINAL],
)
def test_a_status_decides(status: int, outcome: str) -> None:
    verdict = judge(Answer(status=status), failures=0, now=NOW)
    assert (verdict.outcome, verdict.wait is not None) == (outcome, outcome == "failed")


@pytest.mark.parametrize("problem", Problem)
@pytest.mark.parametrize("status", [None, 200, 400])
def test_without_a_complete_answer_it_is_tried_again(problem: Problem, status: int | None) -> None:
    verdict = judge(Answer(problem=problem, status=status), failures=0, now=NOW)
    assert verdict.outcome == "failed"
    assert verdict.wait is not None


def test_there_are_ten_waits_of_two_to_three_days_in_all() -> None:
    assert len(WAITS) == 10
    assert timedelta(days=2) < sum(WAITS, timedelta()) * 0.8 + timedelta(hours=8)
    assert [w.total_seconds() for w in WAITS] == [5, 30, 120, 600, 1800, 7200, 18000, 36000, 50400, 86400]


@pytest.mark.parametrize("failures", range(10))
def test_waits_are_spread_by_a_fifth(failures: int) -> None:
    step = WAITS[failures].total_seconds()
    waits = [seconds(Answer(status=500), failures) for _ in range(300)]
    assert step * 0.8 <= min(waits) < step * 0.85
    assert step * 1.15 < max(waits) <= step * 1.2


def test_after_the_last_wait_there_is_none() -> None:
    assert judge(Answer(status=500), failures=10, now=NOW).wait is None


@pytest.mark.parametrize(
    ("text", "least", "most"),
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
def test_a_receiver_may_ask_for_more_time_up_to_the_next_step(text: str, least: int, most: int) -> None:
    for status in (408, 429, 500, 503):
        assert least <= seconds(Answer(status=status, retry_after=text)) <= most


def test_the_last_wait_is_the_longest_that_can_be_asked_for() -> None:
    wait = seconds(Answer(status=503, retry_after="999999"), failures=9)
    assert 86400 <= wait <= 86400 * 1.2


def attempt_now() -> timedelta:
    """Let the time until the next attempt pass, make it, and return how long that was."""
    due_at, begun = Event.objects.get().next_attempt_at, timezone.now()
    assert due_at is not None
    Event.objects.update(next_attempt_at=Now())
    tasks.deliver()
    return due_at - begun


@pytest.mark.django_db(transaction=True)
def test_three_days_of_failures(hooked: tuple[Client, str], receiver: Receiver) -> None:
    client, _ = hooked
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
def test_a_success_in_between_ends_it(hooked: tuple[Client, str], receiver: Receiver) -> None:
    client, _ = hooked
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
def test_what_is_final_is_not_tried_again(
    path: str, excerpt: str, hooked: tuple[Client, str], receiver: Receiver
) -> None:
    endpoints.set_url(hooked[0], receiver.url(path), by=SYSTEM)
    end_job(hooked[0])
    tasks.deliver()
    event, delivery = Event.objects.get(), Delivery.objects.get()
    assert (event.state, event.failure, delivery.outcome) == ("failed", "rejected", "rejected")
    assert delivery.excerpt == excerpt


@pytest.mark.django_db(transaction=True)
def test_the_log_keeps_two_kilobytes_of_an_answer(hooked: tuple[Client, str], receiver: Receiver) -> None:
    endpoints.set_url(hooked[0], receiver.url("/huge"), by=SYSTEM)
    end_job(hooked[0])
    tasks.deliver()
    delivery = Delivery.objects.get()
    assert delivery.outcome == "delivered"
    assert 2046 <= len(delivery.excerpt.encode()) <= 2048
