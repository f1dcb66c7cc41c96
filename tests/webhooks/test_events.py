"""What is written when a job ends."""

import json
import re
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from clients.models import Client
from jobs import lifecycle, webhook_events
from jobs.enums import Status
from jobs.lifecycle import CANCELLED, Outcome
from tests.concurrency import at_once
from tests.factories import make_account, make_client, make_job, make_running_job
from tests.webhooks.test_delivery import COMPLETED, end_job
from webhooks.endpoints import NotPossible
from webhooks.models import Event

pytestmark = pytest.mark.django_db
ENDS = [
    COMPLETED,
    Outcome(status=Status.FAILED, error_code="simulation_error", reason="It said “nö”."),
    Outcome(status=Status.TIMED_OUT, error_code="max_credits_reached", reason="x" * 600, summary={}),
    CANCELLED,
]


@pytest.fixture
def client() -> Client:
    return make_client(make_account())


def body() -> Any:
    return json.loads(bytes(Event.objects.get().body))


@pytest.mark.parametrize("variant", ["C", "R"])
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.status)
def test_every_end_is_told_as_specified(end: Outcome, variant: str, client: Client, settings: Settings) -> None:
    settings.API_VARIANT = variant
    job = end_job(client, end)
    payload = {"id": str(job.pk), "status": end.status, "statusReason": end.reason and end.reason[:500]}
    if variant == "C":
        payload["errorCode"] = end.error_code
    told = body()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z", told["timestamp"])
    assert told == {"kind": "job.terminal", "version": "v1", "timestamp": told["timestamp"], "payload": payload}


def test_an_event_names_its_job_and_waits(client: Client) -> None:
    job = end_job(client)
    event = Event.objects.get()
    assert re.match(r"evt_[0-9a-f]{32}\Z", event.name)
    assert (event.job_id, event.client, event.state, event.failures) == (job.pk, client, "waiting", 0)


def test_a_job_that_did_not_ask_is_not_told_of(client: Client) -> None:
    end_job(client, wants_webhook=False)
    assert not Event.objects.exists()


def test_a_waiting_job_that_ends_is_told_of(client: Client) -> None:
    assert lifecycle.finish(make_job(client, wants_webhook=True), CANCELLED)
    assert body()["payload"]["status"] == "cancelled"


def test_a_lost_attempt_is_not_told_of(client: Client) -> None:
    job = make_running_job(client=client, wants_webhook=True)
    assert lifecycle.hand_back(job, reason="lost")
    assert not Event.objects.exists()
    assert lifecycle.start_attempt(job, worker="w")
    assert lifecycle.finish(job, CANCELLED)
    assert Event.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_ends_at_once_one_is_told(client: Client) -> None:
    job = make_running_job(client=client, wants_webhook=True)
    ended: list[bool] = []
    at_once(6, lambda: ended.append(bool(lifecycle.finish(job, COMPLETED))))
    assert sorted(ended) == [False] * 5 + [True]
    assert Event.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_end_that_is_not_committed_is_not_told(client: Client) -> None:
    job = make_running_job(client=client, wants_webhook=True)
    with transaction.atomic():
        lifecycle.finish(job, COMPLETED)
        transaction.set_rollback(True)
    assert not Event.objects.exists()


def test_a_test_event_looks_like_one(hooked: tuple[Client, str]) -> None:
    client, _ = hooked
    event = webhook_events.send_test_event(client)
    assert body()["payload"] == {
        "id": "0" * 18,
        "status": "completed",
        "statusReason": "This is a test event: there is no such job.",
        "errorCode": None,
    }
    assert (event.job_id, Event.objects.get()) == (None, event)
    webhook_events.send_test_event(client)


def test_there_is_no_test_event_without_an_endpoint(client: Client) -> None:
    with pytest.raises(NotPossible):
        webhook_events.send_test_event(client)
