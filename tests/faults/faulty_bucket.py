"""An HTTP server in front of an S3 server, which disturbs the requests of one step of a job."""

import http.client
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

from tests.s3_server import S3Server

# The requests of each step, by method and target. The names of shards' files contain `.shard.`.
STEPS = {
    "store shard": re.compile(r"PUT .*\.shard\."),
    "fetch shard": re.compile(r"GET .*\.shard\."),
    "store artifact": re.compile(r"PUT (?!.*\.shard\.)"),
    "list": re.compile(r"GET /artifacts/?\?"),
    "delete": re.compile(r"(POST .*\?delete|DELETE )"),
    "download": re.compile(r"GET /artifacts/(?!\?)(?!.*\.shard\.)"),
}
SLOW_SECONDS = 0.3
ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>a disturbed request</Message></Error>'
# Status and code of the responses that refuse a request
REFUSALS = {"500": (500, "InternalError"), "503": (503, "SlowDown"), "read-only": (403, "AccessDenied")}
HOP_BY_HOP = ("connection", "transfer-encoding", "content-length")


@dataclass(frozen=True)
class Answer:
    """A response. `announced` is its Content-Length, and None if that is the length of its body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    announced: int | None = None


@dataclass
class Disturbance:
    """A hazard for the requests of a step: for the first `times`, or for all. `met` are their targets."""

    step: str
    hazard: str
    times: int | None = None
    met: list[str] = field(default_factory=list)

    def applies(self, request: str) -> bool:
        return STEPS[self.step].match(request) is not None and (self.times is None or len(self.met) < self.times)


class FaultyBucket(ThreadingHTTPServer):
    """Forwards requests to an S3 server."""

    daemon_threads = True

    def __init__(self, server: S3Server) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.target, self.folder = server.port, server.folder
        self.disturbance: Disturbance | None = None
        self.lock = threading.Lock()
        self.is_closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @contextmanager
    def disturbed(self, step: str, hazard: str, *, times: int | None = None) -> Iterator[Disturbance]:
        """Disturb the requests of a step during the block."""
        self.disturbance = Disturbance(step, hazard, times)
        try:
            yield self.disturbance
        finally:
            self.disturbance = None

    def hazard_of(self, request: str) -> str:
        """Return the hazard of a request, empty if it is not disturbed."""
        with self.lock:
            disturbance = self.disturbance
            if disturbance is None or not disturbance.applies(request):
                return ""
            if disturbance.hazard == "another object" and self.other_object(request.partition(" ")[2]) is None:
                # The first objects of each kind are stored as they are.
                return ""
            disturbance.met.append(request)
            return disturbance.hazard

    def other_object(self, path: str) -> Path | None:
        """Return another object of the same kind in the same folder as that of a request, None if there is none."""
        own = self.folder / path.partition("?")[0].lstrip("/")
        others = own.parent.glob(f"*-{own.name.rpartition('-')[2]}")
        return next((each for each in sorted(others) if each != own), None)


class Handler(BaseHTTPRequestHandler):
    """Forwards one request, or disturbs it."""

    protocol_version = "HTTP/1.1"

    def do(self) -> None:
        """Answer one request."""
        server = cast(FaultyBucket, self.server)
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        hazard = server.hazard_of(f"{self.command} {self.path}")
        if answer := self.disturbed(hazard, sent):
            self.send(answer)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do  # noqa: N815 - the names of the base class

    def disturbed(self, hazard: str, sent: bytes) -> Answer | None:
        """Return the answer to a request under a hazard; None if the connection is closed without one."""
        if hazard in REFUSALS:
            status, code = REFUSALS[hazard]
            return Answer(status, [("Content-Type", "application/xml")], ERROR.format(code=code).encode())
        if hazard == "silent":
            cast(FaultyBucket, self.server).is_closing.wait(60)
        if hazard in ("silent", "closed"):
            self.close_connection = True
            return None
        if hazard == "slow":
            time.sleep(SLOW_SECONDS)
        if hazard == "forgotten":
            # It confirms the request and does nothing.
            return Answer(200, [], b"")
        if self.command == "PUT":
            return self.forwarded(self.changed(hazard, sent))
        answer = self.forwarded(sent)
        body = self.changed(hazard, answer.body)
        return Answer(answer.status, answer.headers, body, len(answer.body) if hazard == "cut" else len(body))

    def changed(self, hazard: str, body: bytes) -> bytes:
        """Return the body of an upload or of a response as the hazard changes it."""
        half = len(body) // 2
        if hazard == "wrong bytes":
            # In the middle, as a damaged disk or memory would
            return body[:half] + bytes(each ^ 0x55 for each in body[half : half + 4]) + body[half + 4 :]
        if hazard == "wrong number":
            return body.replace(b"<Size>", b"<Size>x")
        if hazard == "another object":
            other = cast(FaultyBucket, self.server).other_object(self.path)
            return other.read_bytes() if other else body
        return {"empty": b"", "short": body[:half], "cut": body[:half]}.get(hazard, body)

    def forwarded(self, sent: bytes) -> Answer:
        """Return the S3 server's response to the request."""
        connection = http.client.HTTPConnection("127.0.0.1", cast(FaultyBucket, self.server).target, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        try:
            connection.request(self.command, self.path, body=sent or None, headers=headers)
            response = connection.getresponse()
            kept = [(name, value) for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP]
            return Answer(response.status, kept, response.read())
        finally:
            connection.close()

    def send(self, answer: Answer) -> None:
        """Send a response; if it is shorter than announced, close the connection."""
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        announced = len(answer.body) if answer.announced is None else answer.announced
        self.send_header("Content-Length", str(announced))
        self.end_headers()
        self.wfile.write(answer.body)
        self.close_connection = announced != len(answer.body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def faulty_bucket(target: S3Server) -> Iterator[FaultyBucket]:
    """Run the server in threads of this process."""
    with FaultyBucket(target) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.is_closing.set()
            server.shutdown()
            thread.join()
