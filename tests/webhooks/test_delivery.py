"""From a job's end to what arrives at the receiver."""

import hashlib
import hmac
import json
from typing import Any

import pytest

from clients.models import Client
from jobs import lifecycle
from jobs.enums import Status
from jobs.lifecycle import Outcome as End
from jobs.models import Job
from tests.factories import make_running_job
from tests.webhooks.receivers import Receiver
from webhooks import tasks
from webhooks.models import Delivery, Event

pytestmark = pytest.mark.django_db(transaction=True)

COMPLETED = End(status=Status.COMPLETED, sim_duration_ms=1, summary={"metric": "dps", "mainActor": None})


def end_job(client: Client, end: End = COMPLETED, **fields: Any) -> Job:
    """Let a job that asked for a webhook run and end."""
    job = make_running_job(**({"client": client, "wants_webhook": True} | fields))
    assert lifecycle.finish(job, end)
    return job


def test_a_jobs_end_arrives_signed(hooked: tuple[Client, str], receiver: Receiver) -> None:
    client, secret = hooked
    job = end_job(client)
    tasks.deliver()
    (request,) = receiver.received
    delivery = Delivery.objects.select_related("event").get()
    assert json.loads(request.body)["payload"]["id"] == str(job.pk)
    assert request.headers["X-Service-Event-Id"] == delivery.event.name
    assert request.headers["X-Service-Delivery-Id"] == delivery.name
    assert request.headers["Content-Type"] == "application/json"
    at, signature = (part.partition("=")[2] for part in request.headers["X-Service-Signature"].split(","))
    wanted = hmac.new(secret.encode(), f"{at}.".encode() + request.body, hashlib.sha256).hexdigest()
    assert signature == wanted
    assert (delivery.outcome, delivery.status, delivery.address) == ("delivered", 200, "127.0.0.1")
    assert Event.objects.get().state == "delivered"
