"""The example receivers of webhooks as processes, behind a server with TLS as in production."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import requests

from tests.stack import ROOT
from tests.waiting import wait_until
from tests.webhooks.receivers import Receiver, respond

FOLDER = ROOT / "examples" / "webhooks"
PYTHON = (sys.executable, "-m")
COMMANDS = {
    # Two processes, which must share the ids of events.
    "django": [
        *PYTHON,
        "gunicorn",
        "--bind=127.0.0.1:0",
        "--workers=2",
        "--threads=4",
        "django_receiver:application",
    ],
    "fastapi": [*PYTHON, "uvicorn", "--port=0", "fastapi_receiver:app"],
    "node": ["node", "{source}/receiver.mjs", "0"],
}
_ADDRESS = re.compile(r"http://127\.0\.0\.1:[1-9]\d*")


@dataclass
class Example:
    """A running example."""

    name: str
    # Everything that the process has printed.
    log: Path
    url: str
    # The event and the status of each forwarded request.
    forwarded: list[tuple[str, int]] = field(default_factory=list)

    def printed(self) -> list[str]:
        """Return the lines about jobs."""
        return [line for line in self.log.read_text().splitlines() if line.startswith("Job ")]

    def post(self, body: bytes, headers: dict[str, str]) -> int:
        """Send a request to the example and return the status."""
        return requests.post(self.url, data=body, headers=headers, timeout=30).status_code


@contextmanager
def running_example(name: str, folder: Path, *, secret: str, source: Path = FOLDER) -> Iterator[Example]:
    """Run an example in a folder, where it keeps its files, during the block."""
    command = [part.format(source=source) for part in COMMANDS[name]]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    path = os.pathsep.join(str(each) for each in (source, ROOT / "sdk" / "python" / "src"))
    own = {"PYTHONPATH": path, "WEBHOOK_SECRET": secret}
    log = folder / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | own, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_until(lambda: process.poll() is not None or _ADDRESS.search(log.read_text()) is not None, seconds=60)
        address = _ADDRESS.search(log.read_text())
        assert address is not None, log.read_text()
        yield Example(name, log, f"{address.group()}/hook")
    finally:
        process.terminate()
        process.wait(30)


def forward(receiver: Receiver, example: Example) -> None:
    """Forward the requests for `/<name>` to an example, like a server with TLS in front of it."""

    def pass_on(handler: BaseHTTPRequestHandler) -> None:
        port = handler.client_address[1]
        request = next(each for each in reversed(receiver.received) if each.sender_port == port)
        names = [name for name in request.headers if name.startswith("X-Service-")]
        status = example.post(request.body, {name: request.headers[name] for name in names})
        example.forwarded.append((request.event, status))
        respond(handler, status)

    receiver.responders[f"/{example.name}"] = pass_on
