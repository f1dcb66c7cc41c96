"""The signature helpers of the examples and of the Python library, with real deliveries."""

import importlib.util
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from clients.audit import SYSTEM
from clients.models import Client
from simservice_client import (
    InvalidSignature,
    NotConfigured,
    UnknownEvent,
    event_id_of,
    verify_event,
    verify_webhook,
)
from simservice_client.models import CreditsLowEvent
from tests.webhooks.helpers import write_events
from tests.webhooks.receivers import Received, Receiver
from webhooks import endpoints, events, tasks
from webhooks.signing import signature

HELPERS = settings.BASE_DIR / "examples" / "webhooks"
CALL = """
const { verify } = require(process.argv[1]);
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const results = given.map(([secret, signature, body, now]) =>
  verify(secret, signature, Buffer.from(body, "latin1"), now ?? undefined));
console.log(JSON.stringify(results));
"""

PAYLOAD = {"id": "176352841234500042", "status": "failed", "statusReason": "It failed.", "errorCode": "internal"}

# A secret, a header, a body and a Unix time; None means now.
Case = tuple[str, str, bytes, float | None]


def in_python(cases: list[Case]) -> list[bool]:
    """Return the results of verify.py."""
    spec = importlib.util.spec_from_file_location("verify", HELPERS / "verify.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [module.verify(secret, header, body, now=now) for secret, header, body, now in cases]


def in_node(cases: list[Case]) -> list[bool]:
    """Return the results of verify.js."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    cases_json = json.dumps([(secret, header, body.decode("latin1"), now) for secret, header, body, now in cases])
    command = [node, "-e", CALL, str(HELPERS / "verify.js")]
    done = subprocess.run(command, input=cases_json, capture_output=True, text=True, check=True)
    results: list[bool] = json.loads(done.stdout)
    return results


def in_library(cases: list[Case]) -> list[bool]:
    """Return the results of the Python library."""
    return [is_verified(*case) for case in cases]


def is_verified(secret: str, header: str, body: bytes, now: float | None) -> bool:
    """Return whether the library accepts a request."""
    try:
        verify_webhook(body, {"X-Service-Signature": header}, secret=secret, now=now)
    except UnknownEvent:
        return True
    except (InvalidSignature, NotConfigured):
        return False
    return True


each_helper = pytest.mark.parametrize("helper", [in_python, in_node, in_library], ids=["python", "node", "library"])
Helper = Callable[[list[Case]], list[bool]]


@pytest.mark.parametrize("changed", [{"kind": "job.started"}, {"version": "v2"}, {"payload": {}}])
def test_the_library_does_not_guess_events_of_later_versions(changed: dict[str, Any]) -> None:
    event = {"kind": "job.terminal", "version": "v1", "timestamp": "2026-11-20T08:00:00.000Z", "payload": PAYLOAD}
    body, now = json.dumps({**event, **changed}).encode(), int(time.time())
    with pytest.raises(UnknownEvent):
        verify_webhook(
            body, {"X-Service-Signature": f"t={now},v1={signature('whsec_x', body, at=now)}"}, secret="whsec_x"
        )


def test_the_library_reads_events_of_every_kind() -> None:
    payload = {"available": 4, "threshold": 5}
    event = {"kind": "account.credits_low", "version": "v1", "timestamp": "2026-11-20T08:00:00.000Z"}
    body, now = json.dumps({**event, "payload": payload}).encode(), int(time.time())
    headers = {"X-Service-Signature": f"t={now},v1={signature('whsec_x', body, at=now)}"}
    found = verify_event(body, headers, secret="whsec_x")
    assert isinstance(found, CreditsLowEvent)
    assert found.payload.to_json() == payload
    with pytest.raises(UnknownEvent, match="verify_event"):
        verify_webhook(body, headers, secret="whsec_x")


def test_the_library_refuses_to_verify_with_an_empty_secret() -> None:
    now = int(time.time())
    with pytest.raises(NotConfigured):
        verify_webhook(b"{}", {"X-Service-Signature": f"t={now},v1={signature('', b'{}', at=now)}"}, secret="")


@pytest.mark.django_db(transaction=True)
def test_the_library_reads_deliveries(configured: tuple[Client, str], receiver: Receiver) -> None:
    client, secret = configured
    with transaction.atomic():
        events.record(client.pk, job_id=None, payload=PAYLOAD)
    tasks.deliver()
    (request,) = receiver.received
    event = verify_webhook(request.body, request.headers, secret=secret)
    assert event.to_json() == json.loads(request.body)
    assert event_id_of(request.headers) == request.headers["X-Service-Event-Id"]
    as_in_django = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()}
    assert verify_webhook(request.body, as_in_django, secret=secret) == event
    with pytest.raises(InvalidSignature, match="no header"):
        verify_webhook(request.body, {}, secret=secret)


def header_of(request: Received) -> str:
    return request.headers["X-Service-Signature"]


@each_helper
@pytest.mark.django_db(transaction=True)
def test_the_helpers_verify_deliveries(helper: Helper, configured: tuple[Client, str], receiver: Receiver) -> None:
    client, old = configured
    write_events(client, 1)
    tasks.deliver()
    new = endpoints.rotate(client, by=SYSTEM, overlap=timedelta(days=1))
    write_events(client, 1)
    tasks.deliver()
    first, second = receiver.received
    cases: list[Case] = [
        (secret, header_of(request), request.body, None) for request in (first, second) for secret in (old, new)
    ]
    assert helper(cases) == [True, False, True, True]


@each_helper
def test_the_helpers_refuse_invalid_signatures(helper: Helper) -> None:
    now, body = int(time.time()), '{"ü": 1}'.encode()
    valid = signature("whsec_x", body, at=now)
    accepted: list[Case] = [
        ("whsec_x", f"t={now},v1={valid}", body, None),
        ("whsec_x", f"v1={valid},t={now}", body, None),
        ("whsec_x", f"t={now}, v1={'0' * 64}, v1={valid}", body, None),
        ("whsec_x", f"t={now},v0=x,v1={valid}", body, now + 300),
        ("whsec_x", f"t={now},v1={valid}", body, now - 300),
    ]
    refused: list[Case] = [
        ("whsec_y", f"t={now},v1={valid}", body, None),
        ("whsec_x", f"t={now},v1={valid}", body + b" ", None),
        ("whsec_x", f"t={now + 1},v1={valid}", body, None),
        ("whsec_x", f"t={now},v1={valid}", body, now + 301),
        ("whsec_x", f"t={now},v1={valid}", body, now - 301),
        ("whsec_x", f"t={now}", body, None),
        ("whsec_x", f"v1={valid}", body, None),
        ("whsec_x", f"t=,v1={valid}", body, None),
        ("whsec_x", f"t=soon,v1={valid}", body, None),
        ("whsec_x", f"t={now},t={now},v1={valid}", body, None),
        ("whsec_x", f"t={now},v1=", body, None),
        ("whsec_x", f"t={now},v1={valid[:-1]}", body, None),
        ("whsec_x", f"t={now},v1={valid}0", body, None),
        ("whsec_x", f"t={now},v2={valid}", body, None),
        ("whsec_x", f"t={now},v1={'ü' * 64}", body, None),
        ("whsec_x", f"t={now},v1={'ü' * 32}", body, None),
        ("whsec_x", "", body, None),
        ("", f"t={now},v1={signature('', body, at=now)}", body, None),
        ("whsec_x", ",=,", body, None),
    ]
    assert helper(accepted + refused) == [True] * len(accepted) + [False] * len(refused)
