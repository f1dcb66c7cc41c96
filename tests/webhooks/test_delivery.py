"""Delivery of an event, from the end of its job to the receiver."""

import hashlib
import hmac
import json

import pytest

from clients.models import Client
from tests.webhooks.helpers import end_job
from tests.webhooks.receivers import Receiver
from webhooks import tasks
from webhooks.models import Delivery, Event

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_end_of_a_job_is_delivered_with_a_signature(configured: tuple[Client, str], receiver: Receiver) -> None:
    client, secret = configured
    job = end_job(client)
    tasks.deliver()
    (request,) = receiver.received
    delivery = Delivery.objects.select_related("event").get()
    assert json.loads(request.body)["payload"]["id"] == str(job.pk)
    assert request.headers["X-Service-Event-Id"] == delivery.event.name
    assert request.headers["X-Service-Delivery-Id"] == delivery.name
    assert request.headers["Content-Type"] == "application/json"
    at, signature = (part.partition("=")[2] for part in request.headers["X-Service-Signature"].split(","))
    expected = hmac.new(secret.encode(), f"{at}.".encode() + request.body, hashlib.sha256).hexdigest()
    assert signature == expected
    assert (delivery.outcome, delivery.status, delivery.address) == ("delivered", 200, "127.0.0.1")
    assert Event.objects.get().state == "delivered"
