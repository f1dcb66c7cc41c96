"""How many idle connections are kept, and for how long."""

import time

import pytest
from pytest_django import Settings

from tests.webhooks.conftest import Post
from tests.webhooks.receivers import Receiver
from webhooks import connection_pool
from webhooks.connection_pool import Connection, ConnectionPool, Peer


def open_connections(receiver: Receiver, post: Post, pool: ConnectionPool, *, count: int) -> list[Connection]:
    """Open connections and return them, out of the pool."""
    receiver.keeps_open = True
    peer, taken = Peer(1, "localhost", receiver.port), []
    for _ in range(count):
        assert post(receiver.url()).status == 200
        connection = pool.take(peer, addresses=["127.0.0.1"])
        assert connection
        taken.append(connection)
    assert pool.take(peer, addresses=["127.0.0.1"]) is None
    assert len(receiver.connections()) == count
    return taken


def are_closed(connections: list[Connection]) -> list[bool]:
    return [connection.socket.fileno() == -1 for connection in connections]


@pytest.mark.parametrize(("of_all", "of_peer"), [(64, 2), (2, 4)])
def test_the_oldest_connections_above_a_limit_close(
    of_all: int,
    of_peer: int,
    receiver: Receiver,
    post: Post,
    connections: ConnectionPool,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_pool, "MAX_IDLE", of_all)
    settings.WEBHOOK_IN_FLIGHT = of_peer
    opened = open_connections(receiver, post, connections, count=4)
    for connection in opened:
        connections.put(connection)
    assert are_closed(opened) == [True, True, False, False]
    connections.close()
    assert all(are_closed(opened))


def test_few_connections_are_kept_for_a_short_time() -> None:
    assert (connection_pool.MAX_IDLE, connection_pool.IDLE_SECONDS) == (64, 4)


def test_an_old_connection_is_not_kept(
    receiver: Receiver, post: Post, connections: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (connection,) = open_connections(receiver, post, connections, count=1)
    monkeypatch.setattr(connection_pool, "MAX_AGE_SECONDS", 0.0)
    connections.put(connection)
    assert are_closed([connection]) == [True]


def test_a_connection_closes_after_a_short_idle_time(
    receiver: Receiver, post: Post, connections: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = open_connections(receiver, post, connections, count=2)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    connections.put(old)
    now += 3
    connections.put(new)
    now += 1
    connections.close_expired()
    assert are_closed([old, new]) == [True, False]
    now += 3
    assert connections.take(new.peer, addresses=[new.address]) is None
    assert are_closed([new]) == [True]
