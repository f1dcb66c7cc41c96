"""A receiver of webhooks: a TLS server on this machine, with its own certificate authority.

Each path has its own behaviour, so a test chooses it with the URL.
"""

import io
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAMES = ("localhost", "receiver.example.com", "*.example.net")


@dataclass(frozen=True)
class Authority:
    """A certificate authority for tests: its certificate, and a server's key and certificate."""

    ca_file: Path
    server_file: Path


def make_authority(folder: Path, *, valid: timedelta = timedelta(days=1)) -> Authority:
    """Create an authority, and a certificate for a server on this machine that expires after `valid`."""
    ca_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
    ca = certificate(ca_name, ca_name, ca_key.public_key()).add_extension(x509.BasicConstraints(True, 0), True)  # noqa: FBT003
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in NAMES]
    names.append(x509.IPAddress(ip_address("127.0.0.1")))
    server_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Receiver")])
    server = certificate(server_name, ca_name, server_key.public_key(), valid=valid)
    server = server.add_extension(x509.SubjectAlternativeName(names), False)  # noqa: FBT003
    authority = Authority(folder / "ca.pem", folder / "server.pem")
    authority.ca_file.write_bytes(ca.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    authority.server_file.write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + server.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    return authority


def certificate(
    subject: x509.Name, issuer: x509.Name, key: Any, *, valid: timedelta = timedelta(days=1)
) -> x509.CertificateBuilder:
    """Return an unsigned certificate that expires after `valid`, which can be in the past."""
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer,
        subject,
        key,
        x509.random_serial_number(),
        now - timedelta(days=9),
        now + valid,
    )


@dataclass(frozen=True)
class Received:
    """A request that a receiver got."""

    path: str
    headers: dict[str, str]
    body: bytes
    # The sender's port, which identifies the connection.
    sender_port: int

    @property
    def event(self) -> str:
        return self.headers["X-Service-Event-Id"]


@dataclass
class Receiver:
    """A running server, and the requests that it received."""

    port: int
    ca_file: Path
    received: list[Received] = field(default_factory=list)
    # Set by each request.
    arrived: threading.Event = field(default_factory=threading.Event)
    # Response functions by path, in addition to `RESPONDERS`.
    responders: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    # Whether connections stay open after a response. If not, they are closed without notice.
    keeps_open: bool = False

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    def url(self, path: str = "/200") -> str:
        return f"https://{self.address}{path}"

    def settings(self) -> dict[str, str]:
        """Return the settings that allow a service to send webhooks to this receiver."""
        return {"WEBHOOK_ALLOWED_ADDRESSES": self.address, "WEBHOOK_CA_FILE": str(self.ca_file)}

    def events(self) -> list[str]:
        return [request.event for request in self.received]

    def connections(self) -> set[int]:
        """Return the sender's ports of all requests."""
        return {request.sender_port for request in self.received}


def respond(request: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    """Respond with a status, a body and headers, whose names have underscores instead of hyphens."""
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def send(content: bytes, request: BaseHTTPRequestHandler) -> None:
    """Send a whole response."""
    request.wfile.write(content)


def redirect(request: BaseHTTPRequestHandler) -> None:
    respond(request, 301, location="/followed")


def be_silent(request: BaseHTTPRequestHandler) -> None:
    """Send no response until the client gives up."""
    request.connection.settimeout(30)
    with suppress(OSError):
        request.connection.recv(1)


def drip(request: BaseHTTPRequestHandler) -> None:
    """Send a body byte by byte, without ever completing it."""
    with suppress(OSError):
        request.send_response(200)
        request.send_header("Content-Length", "100000")
        request.end_headers()
        while True:
            request.wfile.write(b".")
            request.wfile.flush()
            time.sleep(0.02)


def drip_headers(request: BaseHTTPRequestHandler) -> None:
    with suppress(OSError):
        request.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            request.wfile.write(b"X: y\r\n")
            time.sleep(0.02)


def announce_forever(request: BaseHTTPRequestHandler) -> None:
    with suppress(OSError):
        while True:
            request.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def be_huge(request: BaseHTTPRequestHandler) -> None:
    """Send a body of 256 MiB."""
    with suppress(OSError):
        request.send_response(200)
        request.end_headers()
        for _ in range(4096):
            request.wfile.write(b"\xff\0" * 32768)


def reset(request: BaseHTTPRequestHandler) -> None:
    """Reset the connection, like a crashed server."""
    raw = request.connection
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    socket.socket(fileno=raw.detach()).close()
    request.rfile = request.wfile = io.BytesIO()


def hang_up(request: BaseHTTPRequestHandler) -> None:
    request.connection.shutdown(socket.SHUT_RDWR)


def send_garbage(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")


def cut_body(request: BaseHTTPRequestHandler) -> None:
    """Send a shorter body than announced."""
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b"half")


RESPONDERS: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {
    "/301": redirect,
    "/silence": be_silent,
    "/drip": drip,
    "/drip-headers": drip_headers,
    "/continue": announce_forever,
    "/huge": be_huge,
    "/reset": reset,
    "/hang-up": hang_up,
    "/nonsense": send_garbage,
    "/half": cut_body,
    "/429": lambda request: respond(request, 429, b"slow down", retry_after="20"),
}


class Handler(BaseHTTPRequestHandler):
    """Records each request, then behaves as its path says; a path that is a number is the response's status."""

    protocol_version = "HTTP/1.1"
    # Otherwise, bytes that follow a response would wait until the client acknowledges it.
    disable_nagle_algorithm = True
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if len(body) < int(self.headers["Content-Length"]):
            # A killed client can send headers without their body, which is not a request.
            self.close_connection = True
            return
        self.receiver.received.append(Received(self.path, dict(self.headers), body, self.client_address[1]))
        self.receiver.arrived.set()
        self.close_connection = not self.receiver.keeps_open
        behave = self.receiver.responders.get(self.path) or RESPONDERS.get(self.path)
        if behave:
            behave(self)
        else:
            status = int(self.path[1:4])
            respond(self, status, b"" if status in (204, 304) else b'{"thanks": true}')

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    """Accepts many connections at once, each with TLS in its own thread."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    tls: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(30)
        with suppress(OSError), self.tls.wrap_socket(request, server_side=True) as secured:
            self.RequestHandlerClass(secured, client_address, self)  # type: ignore[arg-type]

    def handle_error(self, *_: Any) -> None:
        """Ignore connections that a test's client breaks off."""


@contextmanager
def receiving(authority: Authority, *, host: str = "127.0.0.1") -> Iterator[Receiver]:
    """Run a receiver on a free port during the block."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.server_file)
    handler = type("OwnHandler", (Handler,), {})
    server = Server((host, 0), handler)
    server.tls = tls
    handler.receiver = Receiver(server.server_address[1], authority.ca_file)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield handler.receiver  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
