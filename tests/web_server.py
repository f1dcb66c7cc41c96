"""The Procfile's web server on the test database, and raw HTTP requests to it."""

import io
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from django.conf import settings
from honcho.environ import parse_procfile

from localstack.redis_server import free_port
from localstack.supervisor import shell
from tests.stack import ROOT
from tests.waiting import wait_until

# Far longer than a response takes on a busy machine, and shorter than a wait
SOON_SECONDS = 15.0
REQUEST_ID = re.compile(r"req_[0-9a-f]{32}")


@dataclass(frozen=True)
class Response:
    """A response of the web server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def code(self) -> str:
        """Check the error envelope and return its code."""
        assert self.headers["Content-Type"] == "application/json"
        body = self.json()
        assert {"error", "code", "meta", "requestId"} <= set(body)
        assert REQUEST_ID.fullmatch(body["requestId"])
        assert self.headers["X-Request-Id"] == body["requestId"]
        return str(body["code"])


@dataclass(frozen=True)
class WebServer:
    """A running gunicorn."""

    port: int
    log: Path
    process: "subprocess.Popen[bytes]"

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            yield connection

    def send(self, *parts: bytes, and_close: bool = False) -> Response:
        """Send bytes on a new connection and return the first response."""
        with self.connection() as connection:
            for part in parts:
                connection.sendall(part)
            if and_close:
                connection.shutdown(socket.SHUT_WR)
            return read_response(connection)


class Unbuffered:
    """A socket for HTTPResponse, of which nothing beyond one response is read."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self.connection.makefile("rb", buffering=0), buffer_size=1)


def read_response(connection: socket.socket) -> Response:
    """Return the next final response on a connection. The one after it may have arrived already."""
    response = HTTPResponse(Unbuffered(connection))  # type: ignore[arg-type]
    response.begin()
    return Response(response.status, dict(response.headers.items()), response.read())


class Connection:
    """A connection to the web server that waits for its responses."""

    def __init__(self, server: WebServer) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)

    def is_answered(self, *, within: float = SOON_SECONDS) -> bool:
        return bool(select.select([self.socket], [], [], within)[0])

    def answer(self) -> Response:
        return read_response(self.socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def request(target: bytes, *headers: bytes, method: bytes = b"GET", body: bytes = b"") -> bytes:
    """Return the bytes of a request with a Host header; nothing is validated."""
    return b"\r\n".join([method + b" " + target + b" HTTP/1.1", b"Host: localhost", *headers, b"", body])


@contextmanager
def connected(web: WebServer, number: int, *sent: bytes) -> Iterator[list[socket.socket]]:
    """Open connections and send the same bytes on each."""
    with ExitStack() as stack:
        clients = [stack.enter_context(web.connection()) for _ in range(number)]
        for client in clients:
            for part in sent:
                client.sendall(part)
        yield clients


@contextmanager
def web_server(
    log: Path,
    *,
    worker: str = "simservice.web.gunicorn_worker.Worker",
    database_url: str = "",
    variables: Mapping[str, str] | None = None,
) -> Iterator[WebServer]:
    """Run the Procfile's web process on the test database, or another one, and a free port within the block."""
    port = free_port()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # Deployments do not set DJANGO_SETTINGS_MODULE; pytest does.
    outside = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment = {**outside, "DATABASE_URL": database_url or _test_database(), "PORT": str(port), "PATH": path}
    environment |= variables or {}
    line = parse_procfile((ROOT / "Procfile").read_text()).processes["web"]
    line = line.replace("simservice.web.gunicorn_worker.Worker", worker)
    with log.open("wb") as output:
        process = subprocess.Popen(shell(line), cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until_listening(port, process)
        yield WebServer(port, log, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _test_database() -> str:
    database = urlsplit(os.environ["DATABASE_URL"])
    return database._replace(path=f"/{settings.DATABASES['default']['NAME']}").geturl()


def wait_until_listening(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a process listens on `port`."""

    def is_listening() -> bool:
        assert process.poll() is None, "the web server exited at its start"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    wait_until(is_listening)
