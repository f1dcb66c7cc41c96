"""HTTP client of webhooks: one POST request to a checked address, within one deadline.

It resolves the host name once, connects to an address that it checked, follows no redirects and uses no proxies. An
idle connection is used again only if it goes to one of the addresses that were just checked.
"""

import io
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException, HTTPResponse
from typing import Any

from django.conf import settings

from webhooks import addresses, advice
from webhooks.connection_pool import Connection, ConnectionPool, Peer, can_be_kept
from webhooks.models import Delivery

# For the whole request: name resolution, connection, TLS, headers and body (`docs/reference/contract.md#limits`).
TIMEOUT_SECONDS = 10.0
MAX_BODY_BYTES = 64 * 1024
# Of a whole response, including headers and 1xx responses.
MAX_RESPONSE_BYTES = 2 * MAX_BODY_BYTES
FINAL_STATUS = 200
# All addresses of a name are checked, but only this many are tried.
MAX_ADDRESSES = 4

Problem = Delivery.Problem


@dataclass(kw_only=True)
class Response:
    """A receiver's response, or the problem that prevented a complete one."""

    duration_ms: int = 0
    address: str = ""
    status: int | None = None
    retry_after: str = ""
    location: str = ""
    body: bytes = b""
    problem: str = ""
    detail: str = ""


class RequestFailed(Exception):
    """There is no complete response; the message is a sentence for the delivery log."""

    def __init__(self, problem: Problem, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem


class Deadline:
    """The time by which a request must be complete."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Return the remaining seconds. Raises TimeoutError if there are none."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def post(
    url: str, headers: Mapping[str, str], body: bytes, *, client_id: int, connections: ConnectionPool
) -> Response:
    """Post a body to a URL of a client and return the response. Raises nothing that a receiver could cause."""
    started = time.monotonic()
    exchange = _Exchange(Deadline(TIMEOUT_SECONDS), connections)
    response = exchange.response
    try:
        _post(exchange, url, headers, body, client_id=client_id)
    except RequestFailed as failed:
        response.problem, response.detail = failed.problem, str(failed)
    except TimeoutError:
        response.problem = Problem.TIMEOUT
        response.detail = f"The response was not complete within {exchange.deadline.seconds:g} seconds."
    if not response.problem:
        response.detail = advice.redirect_detail(response.status, url, response.location)
    response.duration_ms = round((time.monotonic() - started) * 1000)
    return response


@dataclass
class _Exchange:
    """A request in progress; `response` is filled in as far as it arrives."""

    deadline: Deadline
    connections: ConnectionPool
    response: Response = field(default_factory=Response)
    # Bytes of the response, including its headers.
    received: int = 0


def _post(exchange: _Exchange, url: str, headers: Mapping[str, str], body: bytes, *, client_id: int) -> None:
    """Make the request, over an idle connection if there is one. Raises RequestFailed or TimeoutError."""
    try:
        target = addresses.parse(url)
        resolved = resolve(target, deadline=exchange.deadline)
    except addresses.AddressRefused as refused:
        raise RequestFailed(Problem.ADDRESS, str(refused)) from None
    request = _request_bytes(target, headers, body)
    peer = Peer(client_id, target.host, target.port)
    with _described_errors():
        idle = exchange.connections.take(peer, addresses=resolved)
        if idle is None or not _use_idle(idle, request, exchange):
            _use(_open(peer, resolved, exchange), request, exchange)


@contextmanager
def _described_errors() -> Iterator[None]:
    """Translate the errors of a connection to RequestFailed, except TimeoutError."""
    try:
        yield
    except TimeoutError:
        raise
    except ssl.SSLError as error:
        code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else None
        raise RequestFailed(Problem.TLS, advice.on_tls(code, _reason_of(error))) from None
    except OSError as error:
        raise RequestFailed(Problem.CONNECTION, f"The connection broke: {_reason_of(error)}.") from None
    except HTTPException as error:
        raise RequestFailed(Problem.PROTOCOL, f"The response is not valid HTTP: {type(error).__name__}.") from None


def _open(peer: Peer, resolved: Sequence[str], exchange: _Exchange) -> Connection:
    """Return a new connection to a checked address. Raises RequestFailed, TimeoutError or OSError."""
    deadline, response = exchange.deadline, exchange.response
    plain, response.address = connect(resolved[:MAX_ADDRESSES], peer.port, deadline=deadline)
    with plain:
        secured = start_tls(plain, peer.host, deadline=deadline)
    return Connection(peer=peer, address=response.address, socket=secured)


def _use_idle(connection: Connection, request: bytes, exchange: _Exchange) -> bool:
    """Send a request over an idle connection; return False if the server closed it before it responded.

    Servers close idle connections at any time, so the request must then be sent over a new one. The server may have
    processed it already: events can arrive twice.
    """
    exchange.response.address = connection.address
    try:
        _use(connection, request, exchange)
    except (ConnectionError, ssl.SSLEOFError):
        if exchange.received:
            raise
        exchange.response.address = ""
        return False
    return True


def _use(connection: Connection, request: bytes, exchange: _Exchange) -> None:
    """Send a request and read its response; then keep the connection, or close it if it cannot be used again.

    Raises OSError, HTTPException or RequestFailed.
    """
    is_reusable = False
    try:
        connection.socket.settimeout(exchange.deadline.left())
        connection.socket.sendall(request)
        is_reusable = read_response(connection.socket, exchange)
    finally:
        if is_reusable:
            exchange.connections.put(connection)
        else:
            connection.close()


def resolve(target: addresses.Target, *, deadline: Deadline) -> list[str]:
    """Return the addresses of a target's host. All are public, unless the target is allowed explicitly.

    Raises addresses.AddressRefused, RequestFailed if the name does not resolve in time, or TimeoutError.
    """
    resolved = look_up(target.host, target.port, deadline=deadline)
    if not target.is_allowed:
        addresses.require_public(resolved)
    return resolved


def look_up(host: str, port: int, *, deadline: Deadline) -> list[str]:
    """Return all addresses of a name. Raises RequestFailed, or TimeoutError if no time is left."""
    seconds = deadline.left()
    try:
        resolved = ask_resolver(host, port).result(timeout=seconds)
    except TimeoutError:
        raise RequestFailed(
            Problem.DNS, f"The name {host} was not resolved within {deadline.seconds:g} seconds."
        ) from None
    except (OSError, UnicodeError):
        resolved = []
    if not resolved:
        raise RequestFailed(Problem.DNS, f"The name {host} does not resolve to any address.")
    return resolved


def ask_resolver(host: str, port: int) -> Future[list[str]]:
    """Return a future of a name's addresses, which can raise OSError or UnicodeError.

    The system's resolver cannot be interrupted, so it runs in a thread that is abandoned if it hangs.
    """
    future: Future[list[str]] = Future()

    def ask() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        except (OSError, UnicodeError) as error:
            future.set_exception(error)
        else:
            future.set_result(list(dict.fromkeys(str(entry[4][0]) for entry in entries)))

    threading.Thread(target=ask, name="name-lookup", daemon=True).start()
    return future


def connect(resolved: Sequence[str], port: int, *, deadline: Deadline) -> tuple[socket.socket, str]:
    """Connect to the first address that accepts, and return it too; each gets an equal part of the time.

    Raises RequestFailed or TimeoutError.
    """
    last = OSError()
    for number, address in enumerate(resolved):
        connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.settimeout(deadline.left() / (len(resolved) - number))
            connection.connect((address, port))
        except OSError as error:
            connection.close()
            last = error
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection, address
    if isinstance(last, TimeoutError):
        raise last
    raise RequestFailed(Problem.CONNECTION, f"Could not connect: {_reason_of(last)}.")


def start_tls(connection: socket.socket, host: str, *, deadline: Deadline) -> ssl.SSLSocket:
    """Start TLS and verify that the certificate is for the host. Raises OSError, including ssl.SSLError."""
    connection.settimeout(deadline.left())
    return _tls_context(settings.WEBHOOK_CA_FILE).wrap_socket(connection, server_hostname=host)


@cache
def _tls_context(ca_file: str) -> ssl.SSLContext:
    """Return a context that trusts the system's authorities, and those of a file unless its name is empty."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def _request_bytes(target: addresses.Target, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return the request as it is sent."""
    named = {
        "Host": target.authority,
        **headers,
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Content-Length": str(len(body)),
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items()), "", ""]
    return "\r\n".join(lines).encode("ascii") + body


def read_response(connection: ssl.SSLSocket, exchange: _Exchange) -> bool:
    """Read the status and the beginning of the body; return whether the connection can be used again.

    A body that breaks off keeps its status; one that does not end in time raises TimeoutError. Raises OSError,
    HTTPException or RequestFailed too.
    """
    source, response = _Source(connection, exchange), exchange.response
    reader = HTTPResponse(source, method="POST")  # type: ignore[arg-type]
    reader.begin()
    if reader.length == 0:
        # A response such as 204 has no body, whatever its headers say; the reader would wait for chunks.
        reader.chunked = False
    if reader.status < FINAL_STATUS:
        raise RequestFailed(Problem.PROTOCOL, f"The response's status, {reader.status}, is not final.")
    response.status = reader.status
    response.retry_after = reader.getheader("Retry-After", "")
    response.location = reader.getheader("Location", "")
    try:
        response.body = reader.read(MAX_BODY_BYTES)
    except TimeoutError:
        raise
    except (HTTPException, OSError, RequestFailed, ValueError):
        # A negative chunk size is a ValueError.
        return False
    return can_be_kept(reader) and not source.surplus


class _Source(io.RawIOBase):
    """The bytes of a connection; each read has only the time left until the deadline."""

    def __init__(self, connection: ssl.SSLSocket, exchange: _Exchange) -> None:
        self._connection, self._exchange = connection, exchange
        self._is_complete = False
        # Bytes that arrived together with the response but do not belong to it.
        self.surplus = b""

    def makefile(self, _: str) -> io.BufferedReader:
        """Return a buffered reader, as `http.client` expects of a socket."""
        return _Buffer(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read the available bytes. Raises TimeoutError, OSError, or RequestFailed if there are too many."""
        if self._is_complete:
            return None
        if self._exchange.received > MAX_RESPONSE_BYTES:
            raise RequestFailed(
                Problem.PROTOCOL, f"The response headers are longer than {MAX_RESPONSE_BYTES} bytes."
            )
        self._connection.settimeout(self._exchange.deadline.left())
        count = self._connection.recv_into(buffer)
        self._exchange.received += count
        return count

    def complete(self, buffer: io.BufferedReader) -> None:
        """Read nothing further, and take what the buffer still contains."""
        self._is_complete = True
        self.surplus = buffer.peek()


class _Buffer(io.BufferedReader):
    """Passes the rest of its content to its source when the response is complete."""

    raw: _Source

    def close(self) -> None:
        if not self.closed:
            self.raw.complete(self)
        super().close()


def _reason_of(error: OSError) -> str:
    """Return the reason of an error in a few words."""
    verified = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else ""
    return str(verified or error.strerror or error.__class__.__name__).rstrip(".")
