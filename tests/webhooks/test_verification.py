"""The signature helpers of the examples and of the Python library, with real deliveries."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings

from clients.audit import SYSTEM
from clients.models import Client
from tests.webhooks.helpers import end_job
from tests.webhooks.receivers import Received, Receiver
from webhooks import endpoints, tasks
from webhooks.signing import signature

HELPERS = settings.BASE_DIR / "examples" / "webhooks"
LIBRARY = settings.BASE_DIR / "sdk" / "python" / "src"
CALL = """
const { verify } = require(process.argv[1]);
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const results = given.map(([secret, signature, body, now]) =>
  verify(secret, signature, Buffer.from(body, "latin1"), now ?? undefined));
console.log(JSON.stringify(results));
"""
# Other bodies than events are unknown events, but their signatures are verified.
CALL_LIBRARY = """
import contextlib, json, sys, time
from simservice_client import InvalidSignature, verify_webhook
from simservice_client.webhooks import UnknownEvent
results, clock = [], time.time
for secret, header, body, now in json.load(sys.stdin):
    time.time = clock if now is None else lambda now=now: now
    try:
        with contextlib.suppress(UnknownEvent):
            verify_webhook(body.encode("latin-1"), {"X-Service-Signature": header}, secret=secret)
        results.append(True)
    except InvalidSignature:
        results.append(False)
print(json.dumps(results))
"""

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
    return results_of([node, "-e", CALL, str(HELPERS / "verify.js")], cases)


def in_library(cases: list[Case]) -> list[bool]:
    """Return the results of the Python library."""
    return results_of([sys.executable, "-c", CALL_LIBRARY], cases)


def results_of(command: list[str], cases: list[Case]) -> list[bool]:
    """Return the results of a program that reads cases and writes results as JSON."""
    cases_json = json.dumps([(secret, header, body.decode("latin1"), now) for secret, header, body, now in cases])
    environment = os.environ | {"PYTHONPATH": str(LIBRARY)}
    done = subprocess.run(command, input=cases_json, capture_output=True, text=True, check=True, env=environment)
    results: list[bool] = json.loads(done.stdout)
    return results


each_helper = pytest.mark.parametrize("helper", [in_python, in_node, in_library], ids=["python", "node", "library"])
Helper = Callable[[list[Case]], list[bool]]


def header_of(request: Received) -> str:
    return request.headers["X-Service-Signature"]


@each_helper
@pytest.mark.django_db(transaction=True)
def test_the_helpers_verify_deliveries(helper: Helper, configured: tuple[Client, str], receiver: Receiver) -> None:
    client, old = configured
    end_job(client)
    tasks.deliver()
    new = endpoints.rotate(client, by=SYSTEM, overlap=timedelta(days=1))
    end_job(client)
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
        ("whsec_x", ",=,", body, None),
    ]
    assert helper(accepted + refused) == [True] * len(accepted) + [False] * len(refused)
