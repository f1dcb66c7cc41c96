"""An HTTP server that answers like the API: with the examples of its documentation, or with prepared answers."""

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.stack import ROOT

KEY = "sk_example"
SOON = 0.02


@dataclass(frozen=True)
class Answer:
    """A response. A body that is not bytes is sent as JSON."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def refusal(status: int, code: str, **headers: str) -> Answer:
    """Return an error of the API."""
    body = {"error": f"The sentence of {code}.", "code": code, "meta": None, "requestId": "1"}
    return Answer(body, status, headers)


@cache
def _examples() -> dict[str, Any]:
    document = json.loads((ROOT / "docs" / "openapi.json").read_text())
    return {
        f"{method.upper()} {path}": response["content"]["application/json"]["example"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if isinstance(operation, dict) and (response := operation["responses"].get("200"))
        if "application/json" in response.get("content", {})
    }


def example(operation: str) -> Any:
    """Return a copy of the example of an operation, such as `GET /v1/sim/jobs/{job_id}/status`."""
    return json.loads(json.dumps(_examples()[operation]))


class Service(ThreadingHTTPServer):
    """Returns the answers of an operation in order and repeats the last one."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, list[Answer]] = {}
        self.requests: list[str] = []
        self.queries: list[str] = []
        self.keys: set[str | None] = set()
        self.bodies: list[Any] = []
        # The versions of the MCP protocol in the requests
        self.versions: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, method: str, path: str) -> Answer:
        """Return the next answer to a request."""
        for operation in [*self.answers, *_examples()]:
            if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(operation)), f"{method} {path}"):
                prepared = self.answers.get(operation) or [Answer(example(operation))]
                return prepared.pop(0) if len(prepared) > 1 else prepared[0]
        return refusal(404, "not_found")

    def wait_for(self, reached: Callable[["Service"], bool]) -> None:
        """Wait until a condition is true."""
        deadline = time.monotonic() + 60
        while not reached(self):
            assert time.monotonic() < deadline, self.requests
            time.sleep(SOON)


class Handler(BaseHTTPRequestHandler):
    server: Service

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        if "wait=" in query:
            time.sleep(SOON)
        self.server.bodies.append(json.loads(body) if body else None)
        self.server.keys.add(self.headers["Authorization"])
        self.server.queries.append(query)
        self.server.versions.append(self.headers["MCP-Protocol-Version"])
        self.server.requests.append(f"{self.command} {path}")
        answer = self.server.answer(self.command, path)
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.content)))
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.content)

    do_GET = do_POST = respond  # noqa: N815 (the names that http.server calls)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving() -> Iterator[Service]:
    """Run a service until the end of the block."""
    with Service() as service:
        thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield service
        service.shutdown()
        thread.join()
