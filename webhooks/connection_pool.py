"""Idle connections to receivers, kept for the next delivery to the same endpoint."""

import select
import ssl
import threading
import time
from collections.abc import Container
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import NamedTuple

from django.conf import settings

# Shorter than the usual limits of servers, five seconds or more, so that few connections are closed in use.
IDLE_SECONDS = 4.0
# A busy connection is replaced after this time, so that a changed certificate is noticed.
MAX_AGE_SECONDS = 60.0
MAX_IDLE = 64


class Peer(NamedTuple):
    """What a connection can be used for: the deliveries of one client to one server."""

    client_id: int
    host: str
    port: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Connection:
    """An open TLS connection to an address of its peer's host."""

    peer: Peer
    address: str
    socket: ssl.SSLSocket
    # By the monotonic clock
    opened_at: float = field(default_factory=time.monotonic)

    def is_quiet(self) -> bool:
        """Return whether nothing has arrived since the last response: no data, no end of the connection."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return not self.socket.pending() and not poll.poll(0)

    def close(self) -> None:
        self.socket.close()


def can_be_kept(response: HTTPResponse) -> bool:
    """Return whether a response was read to an end that its headers state without doubt, and the server stays."""
    has_length, encoding = "Content-Length" in response.headers, response.getheader("Transfer-Encoding")
    is_clear = not encoding or (response.chunked and not has_length)
    # A response is also closed if the connection ended before the stated length.
    has_ended = response.isclosed() and (response.chunked or not response.length)
    return is_clear and has_ended and not response.will_close


class ConnectionPool:
    """The idle connections of one dispatcher. A connection in use belongs to its thread and is not in the pool."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # With the times at which they became idle, the earliest first.
        self._idle: list[tuple[float, Connection]] = []

    def take(self, peer: Peer, *, addresses: Container[str]) -> Connection | None:
        """Remove and return a connection of a peer to one of the addresses, or None.

        Closes connections of the peer that cannot be used, because they go to other addresses or were closed.
        """
        self.close_expired()
        while connection := self._remove_newest(peer):
            if connection.address in addresses and connection.is_quiet():
                return connection
            connection.close()
        return None

    def _remove_newest(self, peer: Peer) -> Connection | None:
        with self._lock:
            for number in range(len(self._idle) - 1, -1, -1):
                if self._idle[number][1].peer == peer:
                    return self._idle.pop(number)[1]
        return None

    def put(self, connection: Connection) -> None:
        """Keep a connection whose last response was read completely, and close the oldest above the limits.

        A peer has at most `WEBHOOK_IN_FLIGHT` idle connections; all peers together have at most `MAX_IDLE`. An old
        connection is closed.
        """
        if time.monotonic() - connection.opened_at > MAX_AGE_SECONDS:
            connection.close()
            return
        with self._lock:
            self._idle.append((time.monotonic(), connection))
            own = [entry for entry in self._idle if entry[1].peer == connection.peer]
            surplus = own[: -settings.WEBHOOK_IN_FLIGHT] or self._idle[:-MAX_IDLE]
            for entry in surplus:
                self._idle.remove(entry)
        _close(surplus)

    def close_expired(self) -> None:
        """Close the connections that have been idle for `IDLE_SECONDS`."""
        expired_at = time.monotonic() - IDLE_SECONDS
        with self._lock:
            count = sum(idle_since <= expired_at for idle_since, _ in self._idle)
            expired, self._idle = self._idle[:count], self._idle[count:]
        _close(expired)

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            closed, self._idle = self._idle, []
        _close(closed)


def _close(entries: list[tuple[float, Connection]]) -> None:
    for _, connection in entries:
        connection.close()
