"""A proxy between a client and a stack that disturbs chosen requests."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}


@dataclass(frozen=True)
class Answer:
    """A response to a client."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Forward = Callable[[], Answer]
# Returns the answer for the client, None to close the connection without one.
Fault = Callable[[Forward], Answer | None]


@dataclass
class FaultProxy:
    """A running proxy. `faults` are applied to the next requests whose path contains a text, one each."""

    upstream: str
    url: str = ""
    faults: list[tuple[str, Fault]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def disturb(self, path: str, *faults: Fault) -> None:
        """Apply faults to the next requests whose path contains a text."""
        self.faults += [(path, fault) for fault in faults]

    def fault_for(self, path: str) -> Fault | None:
        """Remove and return the fault for a request."""
        with self.lock:
            found = next((each for each in self.faults if each[0] in path), None)
            if found is not None:
                self.faults.remove(found)
        return found and found[1]

    def count(self, text: str) -> int:
        """Return how many requests contained a text, such as `POST /v1/sim/jobs`."""
        return sum(text in request for request in self.requests)


def lose_answer(forward: Forward) -> None:
    """Let the service handle the request, and close the connection without its answer."""
    forward()


def refuse(status: int, **headers: str) -> Fault:
    """Return a fault that answers with an error instead of the service."""
    body = b'{"error":"Disturbed.","code":"internal_error","meta":null,"requestId":"1"}'
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Answer(status, {"Content-Type": "application/json", **named}, body)


def page(status: int, *, text: str = "<html><h1>Bad gateway</h1></html>") -> Fault:
    """Return a fault that answers as a proxy does."""
    return lambda _: Answer(status, {"Content-Type": "text/html"}, text.encode())


def hang(seconds: float) -> Fault:
    """Return a fault that does not answer for some time."""

    def fault(forward: Forward) -> None:
        time.sleep(seconds)

    return fault


def truncate(size: int) -> Fault:
    """Return a fault that closes the connection after some bytes of the body."""

    def fault(forward: Forward) -> Answer:
        answer = forward()
        return Answer(answer.status, answer.headers, answer.body[:size])

    return fault


def damage(forward: Forward) -> Answer:
    """Change the last byte of the body."""
    answer = forward()
    return Answer(answer.status, answer.headers, answer.body[:-1] + bytes([answer.body[-1] ^ 1]))


@contextlib.contextmanager
def disturbing(upstream: str) -> Iterator[FaultProxy]:
    """Run a proxy before a stack."""
    proxy = FaultProxy(upstream)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy))
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    """Return the class of the requests' handlers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            proxy.requests.append(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fault = proxy.fault_for(self.path)
            answer = self.forward(body) if fault is None else fault(lambda: self.forward(body))
            self.close_connection = True
            if answer is None:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            with contextlib.suppress(OSError):
                self.answer(answer)

        do_GET = do_POST = handle_request  # noqa: N815 - the names that the base class looks for

        def forward(self, body: bytes) -> Answer:
            parts = urlsplit(proxy.upstream)
            with contextlib.closing(HTTPConnection(parts.hostname or "", parts.port, timeout=60)) as connection:
                connection.request(self.command, self.path, body, dict(self.headers))
                response = connection.getresponse()
                return Answer(response.status, _kept(response), response.read())

        def answer(self, answer: Answer) -> None:
            self.send_response_only(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            pass

    return Handler


def _kept(response: HTTPResponse) -> dict[str, str]:
    """Return the headers for the client, with the length of the whole body."""
    return {name.title(): value for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP}
