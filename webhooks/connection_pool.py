"""Sessions of the library `requests`, with limits on the addresses, time and response size of each request.

The library passes nothing about a request on to connections and sockets, so they read it from `exchange`.
"""

import io
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from django.conf import settings
from requests.adapters import HTTPAdapter
from urllib3 import HTTPSConnectionPool, Retry
from urllib3.connection import HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from simservice.network.addresses import MAX_ADDRESSES

# Of a whole response, including headers and 1xx responses.
MAX_RESPONSE_BYTES = 128 * 1024
# Shorter than the usual limits of servers, five seconds or more, so that few connections are closed in use.
IDLE_SECONDS = 4.0
# A busy connection is replaced after this time, so that a changed certificate is noticed.
MAX_AGE_SECONDS = 60.0
# Each session keeps at most `WEBHOOK_IN_FLIGHT` idle connections.
MAX_SESSIONS = 64


class InvalidResponse(HTTPException):
    """The response breaks a rule; the message is a sentence for the delivery log."""


@dataclass
class Exchange:
    """A request in progress."""

    # By the monotonic clock
    deadline: float
    # The checked addresses, and the one that the request uses
    addresses: Sequence[str] = ()
    address: str = ""
    # Whether the request needs a new connection, or has opened one
    needs_new: bool = False
    # Bytes of the response, including its headers
    received: int = 0

    def seconds_left(self) -> float:
        """Return the remaining seconds. Raises TimeoutError if there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


exchange = ContextVar[Exchange]("exchange")


class TLSSocket(ssl.SSLSocket):
    """A socket that waits until the deadline of the exchange at most."""

    address = ""
    opened_at = used_at = 0.0
    # Whether a response has ended, and whether more bytes have arrived
    has_ended = has_surplus = False

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002
        self.address, self.opened_at = self.getpeername()[0], time.monotonic()
        self._join()
        super().do_handshake(block)

    def send(self, data: Any, flags: int = 0) -> int:
        self._join()
        return super().send(data, flags)

    def recv_into(self, buffer: Any, *_: Any) -> int:
        """Read the available bytes. Raises OSError, or InvalidResponse if there are too many."""
        if self.has_ended:
            return 0
        current = self._join()
        if current.received > MAX_RESPONSE_BYTES:
            raise InvalidResponse(f"The response headers are longer than {MAX_RESPONSE_BYTES} bytes.")
        count = super().recv_into(buffer)
        current.received += count
        self.used_at = time.monotonic()
        return count

    def _join(self) -> Exchange:
        """Limit the next operation to the time left, and return the exchange."""
        current = exchange.get()
        current.address = self.address
        self.settimeout(current.seconds_left())
        return current

    def makefile(self, *_: Any, **__: Any) -> "Reader":  # type: ignore[override]
        """Return a reader for one response."""
        self.has_ended, self.has_surplus = False, True
        reader = Reader(super().makefile("rb", buffering=0))
        reader.socket = self
        return reader


class Reader(io.BufferedReader):
    """The bytes of a response, closed at its end."""

    socket: TLSSocket

    def close(self) -> None:
        if not self.closed:
            self.socket.has_ended = True
            # After a timeout, the socket raises an error.
            with suppress(OSError):
                self.socket.has_surplus = bool(self.peek())
        super().close()


class Connection(HTTPSConnection):
    """A connection to an address, `host`, of a server, `server_hostname`."""

    sock: TLSSocket

    def connect(self) -> None:
        """Connect to the first checked address that accepts; each gets an equal part of the time."""
        current = exchange.get()
        current.needs_new, untried = True, list(current.addresses[:MAX_ADDRESSES])
        while self.is_closed:
            self.timeout = current.seconds_left() / len(untried)
            self.host = untried.pop(0)
            try:
                super().connect()
            except (ConnectTimeoutError, NewConnectionError):
                if not untried:
                    raise

    @property
    def is_connected(self) -> bool:
        """Return whether an idle connection can be used; urllib3 replaces it if not."""
        current, now = exchange.get(), time.monotonic()
        if current.needs_new or not super().is_connected or self.sock.pending() or self.sock.has_surplus:
            return False
        is_fresh = now - self.sock.used_at < IDLE_SECONDS and now - self.sock.opened_at < MAX_AGE_SECONDS
        return is_fresh and self.host in current.addresses


class Pool(HTTPSConnectionPool):
    """The idle connections of one client to one server."""

    ConnectionCls = Connection


class Adapter(HTTPAdapter):
    """Sends all requests over one pool."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(max_retries=Retry(total=False))
        self.pool = pool

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> Pool:
        return self.pool

    def cert_verify(self, *_: Any) -> None:
        """Keep the authorities of the pool's context. By default, `requests` would add its own list."""

    def close(self) -> None:
        self.pool.close()


class ServerSession(requests.Session):
    """The session of one client with one server. Uses nothing from the environment or from earlier responses."""

    used_at = 0.0

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        self.trust_env = False
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        context, size = tls_context(settings.WEBHOOK_CA_FILE), settings.WEBHOOK_IN_FLIGHT
        pool = Pool(host, port, maxsize=size, server_hostname=host, ssl_context=context)
        self.adapters = OrderedDict({"https://": Adapter(pool)})

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Follow no redirect. By default, `requests` would read its whole body and parse its target."""


class ConnectionPool:
    """The idle connections of one dispatcher."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By client, host and port, in the order of their last use.
        self._sessions: dict[tuple[int, str, int], ServerSession] = {}

    def of(self, client_id: int, host: str, port: int) -> ServerSession:
        """Return the session of a client with a server. Another call may close its pool before it is used."""
        key = client_id, host, port
        with self._lock:
            session = self._sessions.pop(key, None) or ServerSession(host, port)
            self._sessions[key] = session
            session.used_at = time.monotonic()
            self._close(list(self._sessions)[:-MAX_SESSIONS])
        return session

    def close_expired(self) -> None:
        """Close the sessions that have not been used for `IDLE_SECONDS`."""
        expired_at = time.monotonic() - IDLE_SECONDS
        with self._lock:
            self._close([key for key, session in self._sessions.items() if session.used_at <= expired_at])

    def close(self) -> None:
        """Close all sessions."""
        with self._lock:
            self._close(list(self._sessions))

    def _close(self, keys: list[tuple[int, str, int]]) -> None:
        for key in keys:
            self._sessions.pop(key).close()


@cache
def tls_context(ca_file: str) -> ssl.SSLContext:
    """Return a context that trusts the system's authorities, and those of a file unless its name is empty."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslsocket_class = TLSSocket
    if ca_file:
        context.load_verify_locations(ca_file)
    return context
