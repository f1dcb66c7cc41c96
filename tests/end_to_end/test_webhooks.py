"""Webhook delivery by the processes of the Procfile."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import requests

from tests.stack import QUICK, ROOT, Stack
from tests.waiting import wait_until
from tests.webhooks.receivers import Received, Receiver
from webhooks.signing import signature

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(240)]

# Creates a client with a webhook and a key, and prints both secrets.
CONFIGURE = """
import json
from billing.models import Account
from clients.audit import SYSTEM
from clients.keys import create_key
from clients.models import Client
from webhooks import endpoints
client = Client.objects.create(account=Account.objects.get(name="demo"), name={name!r})
secret = endpoints.configure(client, {url!r}, by=SYSTEM)
print(json.dumps([create_key(client, by=SYSTEM)[1], secret]))
"""


def configure(stack: Stack, receiver: Receiver, *, name: str) -> tuple[str, str]:
    """Add a client with a webhook to the demo account; return its key and signing secret."""
    environment = os.environ | {
        "DATABASE_URL": stack.ready["databaseUrl"],
        "REDIS_URL": stack.ready["redisUrl"],
        "WEBHOOK_SECRETS_KEYS": "for the tests' stack",
        "WEBHOOK_ALLOWED_ADDRESSES": receiver.address,
    }
    command = [sys.executable, "manage.py", "shell", "-v0", "-c", CONFIGURE.format(name=name, url=receiver.url())]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    key, secret = json.loads(done.stdout.splitlines()[-1])
    return key, secret


def wait_for_requests(receiver: Receiver, job_id: str) -> list[Received]:
    """Wait for deliveries of a job's events. Other tests use the same receiver."""
    return wait_until(lambda: [each for each in receiver.received if job_id.encode() in each.body])


def test_the_end_of_a_job_is_delivered_to_the_receiver(stack: Stack, receiver: Receiver) -> None:
    key, secret = configure(stack, receiver, name="bot")
    body: dict[str, Any] = {
        "build": {"channel": "latest"},
        "profile": {"text": QUICK},
        "webhook": {"events": ["job.terminal"]},
    }
    headers = {"Authorization": f"Bearer {key}"}
    response = requests.post(f"{stack.ready['url']}/v1/sim/jobs", json=body, headers=headers, timeout=10)
    job_id = response.json()["id"]
    (request,) = wait_for_requests(receiver, job_id)
    at, signed = (part[part.index("=") + 1 :] for part in request.headers["X-Service-Signature"].split(","))
    assert signed == signature(secret, request.body, at=int(at))
    payload = json.loads(request.body)["payload"]
    assert payload == {"id": job_id, "status": "completed", "statusReason": None, "errorCode": None}
