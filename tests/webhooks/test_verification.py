"""The helpers that the docs give to receivers, against real deliveries."""

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

from clients.audit import SYSTEM
from clients.models import Client
from tests.webhooks.receivers import Received, Receiver
from tests.webhooks.test_claims import write
from webhooks import endpoints, tasks
from webhooks.signing import signature

HELPERS = settings.BASE_DIR / "docs" / "webhooks"
CALL = """
const { verify } = require(process.argv[1]);
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const answers = given.map(([secret, signature, body, now]) =>
  verify(secret, signature, Buffer.from(body, "latin1"), now ?? undefined));
console.log(JSON.stringify(answers));
"""

# A secret, a header, a body and the time, None being now.
Case = tuple[str, str, bytes, float | None]


def in_python(cases: list[Case]) -> list[bool]:
    """Return what verify.py says of each case."""
    spec = importlib.util.spec_from_file_location("verify", HELPERS / "verify.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [module.verify(secret, header, body, now=now) for secret, header, body, now in cases]


def in_node(cases: list[Case]) -> list[bool]:
    """Return what verify.js says of each case."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    given = json.dumps([(secret, header, body.decode("latin1"), now) for secret, header, body, now in cases])
    command = [node, "-e", CALL, str(HELPERS / "verify.js")]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    answers: list[bool] = json.loads(done.stdout)
    return answers


each_helper = pytest.mark.parametrize("ask", [in_python, in_node], ids=["python", "node"])
Helper = Callable[[list[Case]], list[bool]]


def header_of(request: Received) -> str:
    return request.headers["X-Service-Signature"]


@each_helper
@pytest.mark.django_db(transaction=True)
def test_deliveries_are_verified(ask: Helper, hooked: tuple[Client, str], receiver: Receiver) -> None:
    client, old = hooked
    write(client, 1)
    tasks.deliver()
    new = endpoints.rotate(client, by=SYSTEM, overlap=timedelta(days=1))
    write(client, 1)
    tasks.deliver()
    first, second = receiver.received
    cases: list[Case] = [
        (secret, header_of(request), request.body, None) for request in (first, second) for secret in (old, new)
    ]
    assert ask(cases) == [True, False, True, True]


@each_helper
def test_anything_else_is_refused(ask: Helper) -> None:
    now, body = int(time.time()), '{"ü": 1}'.encode()
    good = signature("whsec_x", body, at=now)
    accepted: list[Case] = [
        ("whsec_x", f"t={now},v1={good}", body, None),
        ("whsec_x", f"v1={good},t={now}", body, None),
        ("whsec_x", f"t={now}, v1={'0' * 64}, v1={good}", body, None),
        ("whsec_x", f"t={now},v0=x,v1={good}", body, now + 300),
        ("whsec_x", f"t={now},v1={good}", body, now - 300),
    ]
    refused: list[Case] = [
        ("whsec_y", f"t={now},v1={good}", body, None),
        ("whsec_x", f"t={now},v1={good}", body + b" ", None),
        ("whsec_x", f"t={now + 1},v1={good}", body, None),
        ("whsec_x", f"t={now},v1={good}", body, now + 301),
        ("whsec_x", f"t={now},v1={good}", body, now - 301),
        ("whsec_x", f"t={now}", body, None),
        ("whsec_x", f"v1={good}", body, None),
        ("whsec_x", f"t=,v1={good}", body, None),
        ("whsec_x", f"t=soon,v1={good}", body, None),
        ("whsec_x", f"t={now},t={now},v1={good}", body, None),
        ("whsec_x", f"t={now},v1=", body, None),
        ("whsec_x", f"t={now},v1={good[:-1]}", body, None),
        ("whsec_x", f"t={now},v1={good}0", body, None),
        ("whsec_x", f"t={now},v2={good}", body, None),
        ("whsec_x", f"t={now},v1={'ü' * 64}", body, None),
        ("whsec_x", f"t={now},v1={'ü' * 32}", body, None),
        ("whsec_x", "", body, None),
        ("whsec_x", ",=,", body, None),
    ]
    assert ask(accepted + refused) == [True] * len(accepted) + [False] * len(refused)
