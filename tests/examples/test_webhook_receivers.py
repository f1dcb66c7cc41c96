"""The example receivers of webhooks, with deliveries of a stack and with requests that they must refuse."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests

from tests.examples.receivers import COMMANDS, FOLDER, Example, forward, running_example
from tests.stack import ROOT, ApiClient, Stack
from tests.waiting import wait_until
from tests.webhooks.receivers import Receiver
from webhooks import signing

pytestmark = [pytest.mark.xdist_group("api"), pytest.mark.timeout(240)]

# Creates a client with a webhook and a key, and prints both secrets.
CONFIGURE = """
from billing.models import Account
from clients.keys import create_key
client = Client.objects.create(account=Account.objects.get(name="demo"), name={name!r})
secret = endpoints.configure(client, {url!r}, by=SYSTEM)
print(json.dumps([create_key(client, by=SYSTEM)[1], secret]))
"""
ROTATE = """
from datetime import timedelta
endpoints.rotate(Client.objects.get(name={name!r}), by=SYSTEM, overlap=timedelta(days=1))
print("null")
"""
REDELIVER = """
import time
from webhooks import events
event = events.events_of(Client.objects.get(name={name!r})).get(name={event!r})
while events.redeliver(event) is events.Redelivery.IN_FLIGHT:
    time.sleep(0.1)
print("null")
"""
IMPORTS = """
import json
from clients.audit import SYSTEM
from clients.models import Client
from webhooks import endpoints
"""


@dataclass(frozen=True)
class Console:
    """A `manage.py shell` with a stack's database, which runs scripts and returns what they print as JSON."""

    process: "subprocess.Popen[str]"

    def run(self, script: str, **values: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(IMPORTS + script.format(**values)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@dataclass(frozen=True)
class Connected:
    """An example that receives the webhooks of a stack's client."""

    example: Example
    stack: Stack
    receiver: Receiver
    key: str
    console: Console

    def run_job(self) -> str:
        """Run a job and return its id when the example has printed it."""
        api = ApiClient({"url": self.stack.ready["url"], "apiKey": self.key})
        job = api.submit(webhook={"events": ["job.terminal"]})
        wait_until(lambda: f"Job {job}: completed" in self.example.printed(), seconds=60)
        return job

    def run(self, script: str, **values: str) -> Any:
        return self.console.run(script, name=self.example.name, **values)


# One process runs all scripts, because each would need seconds to start.
RUN_SCRIPTS = """
import json, sys
for line in sys.stdin:
    exec(json.loads(line), {})
    sys.stdout.flush()
"""


@pytest.fixture(scope="module")
def console(stack: Stack, receiver: Receiver) -> Iterator[Console]:
    own = {
        "DATABASE_URL": stack.ready["databaseUrl"],
        "REDIS_URL": stack.ready["redisUrl"],
        "WEBHOOK_SECRETS_KEYS": "for the tests' stack",
        "WEBHOOK_ALLOWED_ADDRESSES": receiver.address,
    }
    command = [sys.executable, "manage.py", "shell", "-v0", "--no-imports", "-c", RUN_SCRIPTS]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | own, stdin=pipe, stdout=pipe, text=True) as process:
        yield Console(process)
        process.communicate()
    assert process.returncode == 0


@pytest.fixture(scope="module", params=COMMANDS)
def connected(
    request: pytest.FixtureRequest,
    stack: Stack,
    receiver: Receiver,
    console: Console,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Connected]:
    name = request.param
    key, secret = console.run(CONFIGURE, name=name, url=receiver.url(f"/{name}"))
    with running_example(name, tmp_path_factory.mktemp(name), secret=secret) as example:
        forward(receiver, example)
        yield Connected(example, stack, receiver, key, console)


@pytest.fixture(scope="module", params=COMMANDS)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    """An example without a stack."""
    with running_example(request.param, tmp_path_factory.mktemp("example"), secret="whsec_x") as running:
        yield running


def test_a_job_is_printed_once_though_its_event_is_resent(connected: Connected) -> None:
    job = connected.run_job()
    (event,) = {request.event for request in connected.receiver.received if job.encode() in request.body}
    connected.run(REDELIVER, event=event)
    wait_until(lambda: connected.example.forwarded.count((event, 204)) == 2, seconds=60)
    assert connected.example.printed().count(f"Job {job}: completed") == 1


def test_deliveries_with_two_signatures_are_accepted(connected: Connected) -> None:
    connected.run(ROTATE)
    job = connected.run_job()
    (request,) = [each for each in connected.receiver.received if job.encode() in each.body]
    assert request.headers["X-Service-Signature"].count("v1=") == 2


def signed(body: bytes, *, secrets: tuple[str, ...] = ("whsec_x",), age: float = 0) -> dict[str, str]:
    """Return the headers of a new event that was signed some seconds ago."""
    at = int(time.time() - age)
    return signing.headers(secrets, body, at=at, event=f"evt_{uuid4().hex}", delivery=f"dlv_{uuid4().hex}")


def body_of(job: str, **fields: Any) -> bytes:
    """Return the body of an event."""
    payload = {"id": job, "status": "completed", "statusReason": None, "errorCode": None}
    event = {"kind": "job.terminal", "version": "v1", "timestamp": "2026-11-20T08:10:03.120Z", "payload": payload}
    return json.dumps(event | fields).encode()


def test_requests_that_are_not_from_the_service_get_400(example: Example) -> None:
    body = body_of("1")
    valid = signed(body)
    name = "X-Service-Signature"
    statuses = {
        "changed body": example.post(body.replace(b'"1"', b'"2"'), valid),
        "old": example.post(body, signed(body, age=400)),
        "from the future": example.post(body, signed(body, age=-400)),
        "no signature": example.post(body, {key: value for key, value in valid.items() if key != name}),
        "no digest": example.post(body, valid | {name: valid[name].partition(",")[0]}),
        "malformed": example.post(body, valid | {name: "v1"}),
        "another secret": example.post(body, signed(body, secrets=("whsec_y",))),
        "two other secrets": example.post(body, signed(body, secrets=("whsec_y", "whsec_z"))),
        "no event id": example.post(body, {name: valid[name]}),
        "no body": example.post(b"", valid),
    }
    assert set(statuses.values()) == {400}, statuses
    assert not [line for line in example.printed() if line.startswith(("Job 1:", "Job 2:"))]


@pytest.mark.parametrize("secrets", [("whsec_x",), ("whsec_x", "whsec_y"), ("whsec_y", "whsec_x")])
def test_one_of_several_signatures_must_match(example: Example, secrets: tuple[str, ...]) -> None:
    job, before = uuid4().hex, len(example.printed())
    body = body_of(job)
    assert example.post(body, signed(body, secrets=secrets, age=200)) == 204
    assert example.printed()[before:] == [f"Job {job}: completed"]


def test_unknown_events_are_ignored(example: Example) -> None:
    before = example.printed()
    for kind, payload in (("job.started", {"id": "3"}), ("account.credits_low", {"available": 4, "threshold": 5})):
        body = body_of("3", kind=kind, payload=payload)
        assert example.post(body, signed(body)) == 204
    assert example.printed() == before


def test_large_bodies_are_refused(example: Example) -> None:
    before = example.printed()
    body = body_of("4", padding="x" * 65_536)
    # Django's own limit is an invalid request.
    assert example.post(body, signed(body)) == (400 if example.name == "django" else 413)
    assert example.printed() == before


def test_only_post_is_allowed(example: Example) -> None:
    response = requests.get(example.url, timeout=30)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")


def test_simultaneous_duplicates_are_printed_once(example: Example) -> None:
    job = uuid4().hex
    body = body_of(job)
    headers = signed(body)
    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(lambda _: example.post(body, headers), range(24)))
    assert statuses == [204] * 24
    assert example.printed().count(f"Job {job}: completed") == 1


@pytest.mark.parametrize("name", ["django", "fastapi"])
def test_without_a_secret_nothing_is_accepted(name: str, tmp_path: Path) -> None:
    body = body_of("7")
    with running_example(name, tmp_path, secret="") as example:
        assert example.post(body, signed(body, secrets=("",))) == 500
        assert example.printed() == []


def test_the_node_example_does_not_start_without_a_secret(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"Set WEBHOOK_SECRET\."), running_example("node", tmp_path, secret=""):
        pass


@pytest.mark.parametrize("name", COMMANDS)
def test_duplicates_are_ignored_after_a_restart(name: str, tmp_path: Path) -> None:
    body = body_of("5")
    headers = signed(body)
    with running_example(name, tmp_path, secret="whsec_x") as first:
        assert first.post(body, headers) == 204
        assert first.printed() == ["Job 5: completed"]
    with running_example(name, tmp_path, secret="whsec_x") as second:
        assert second.post(body, headers) == 204
        assert second.printed() == []


@pytest.mark.parametrize("name", COMMANDS)
def test_an_event_that_failed_is_processed_when_resent(name: str, tmp_path: Path) -> None:
    body = body_of("6")
    headers = signed(body)
    source = shutil.copytree(FOLDER, tmp_path / "source")
    make_handling_need_a_file(source)
    with running_example(name, tmp_path, secret="whsec_x", source=source) as example:
        assert example.post(body, headers) == 500
        (tmp_path / "needed").touch()
        assert example.post(body, headers) == 204
        assert example.printed() == ["Job 6: completed"]


def make_handling_need_a_file(source: Path) -> None:
    """Change copies of the examples so that they process events only if a file `needed` exists."""
    for path in source.glob("*receiver.*"):
        text = path.read_text()
        text = text.replace("    print(f", '    open("needed").close()\n    print(f')
        path.write_text(text.replace("  console.log(`Job", '  readFileSync("needed");\n  console.log(`Job'))
