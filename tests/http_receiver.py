"""A plain HTTP server on this machine that records the bodies it receives."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class HttpReceiver:
    """A running server. `bodies` are unpacked, with the path of each."""

    port: int
    bodies: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Handler(BaseHTTPRequestHandler):
    """Records each POST and answers with an empty object."""

    protocol_version = "HTTP/1.1"
    receiver: HttpReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        self.receiver.bodies.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def http_receiver() -> Iterator[HttpReceiver]:
    """Run a server on a free port during the block."""
    handler = type("OwnHandler", (Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    handler.receiver = HttpReceiver(server.server_address[1])  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield handler.receiver  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
