"""Events recorded at the end of a job."""

import json
import re
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from clients.models import Client
from jobs.enums import Status
from jobs.lifecycle import job_moves, webhook_events
from jobs.lifecycle.job_moves import CANCELLED, Outcome
from tests.concurrency import at_once
from tests.factories import make_account, make_client, make_job, make_running_job, start_attempt
from tests.webhooks.helpers import COMPLETED, end_job
from webhooks.endpoints import EndpointError
from webhooks.models import Event

pytestmark = pytest.mark.django_db
OUTCOMES = [
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
@pytest.mark.parametrize("end", OUTCOMES, ids=lambda end: end.status)
def test_each_end_has_the_specified_body(end: Outcome, variant: str, client: Client, settings: Settings) -> None:
    settings.API_VARIANT = variant
    job = end_job(client, end)
    payload = {"id": str(job.pk), "status": end.status, "statusReason": end.reason and end.reason[:500]}
    if variant == "C":
        payload["errorCode"] = end.error_code
    event = body()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z", event["timestamp"])
    assert event == {"kind": "job.terminal", "version": "v1", "timestamp": event["timestamp"], "payload": payload}


def test_a_new_event_has_its_job_and_waits(client: Client) -> None:
    job = end_job(client)
    event = Event.objects.get()
    assert re.match(r"evt_[0-9a-f]{32}\Z", event.name)
    assert (event.job_id, event.client, event.state, event.failures) == (job.pk, client, "waiting", 0)


def test_a_job_without_a_webhook_records_no_event(client: Client) -> None:
    end_job(client, wants_webhook=False)
    assert not Event.objects.exists()


def test_a_job_cancelled_while_waiting_records_an_event(client: Client) -> None:
    assert job_moves.finish(make_job(client, wants_webhook=True), CANCELLED)
    assert body()["payload"]["status"] == "cancelled"


def test_a_lost_attempt_records_no_event(client: Client) -> None:
    job = make_running_job(client=client, wants_webhook=True)
    assert job_moves.requeue(job, reason="lost")
    assert not Event.objects.exists()
    assert start_attempt(job, worker="w")
    assert job_moves.finish(job, CANCELLED)
    assert Event.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_concurrent_ends_record_one_event(client: Client) -> None:
    job = make_running_job(client=client, wants_webhook=True)
    recorded: list[bool] = []
    at_once(6, lambda: recorded.append(bool(job_moves.finish(job, COMPLETED))))
    assert sorted(recorded) == [False] * 5 + [True]
    assert Event.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_end_that_is_rolled_back_records_no_event(client: Client) -> None:
    job = make_running_job(client=client, wants_webhook=True)
    with transaction.atomic():
        job_moves.finish(job, COMPLETED)
        transaction.set_rollback(True)
    assert not Event.objects.exists()


def test_a_test_event_has_a_completed_jobs_body(configured: tuple[Client, str]) -> None:
    client, _ = configured
    event = webhook_events.send_test_event(client)
    assert body()["payload"] == {
        "id": "0" * 18,
        "status": "completed",
        "statusReason": "This is a test event. The job does not exist.",
        "errorCode": None,
    }
    assert (event.job_id, Event.objects.get()) == (None, event)
    webhook_events.send_test_event(client)


def test_a_test_event_needs_an_endpoint(client: Client) -> None:
    with pytest.raises(EndpointError):
        webhook_events.send_test_event(client)
