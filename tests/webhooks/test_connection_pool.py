"""How many idle connections are kept, and for how long."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from typing import Any

import psutil
import pytest
from pytest_django import Settings
from urllib3 import BaseHTTPResponse

from tests.webhooks.conftest import Post
from tests.webhooks.receivers import Receiver, hang_up, respond
from webhooks import connection_pool, http_client
from webhooks.connection_pool import ConnectionPool, Pool, ServerSession


@pytest.fixture(autouse=True)
def _keeps_open(receiver: Receiver) -> None:
    receiver.keeps_open = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Stop the monotonic clock, and return a function that moves it forward."""
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    return wait


def post_at_once(receiver: Receiver, post: Post, *, count: int) -> None:
    """Make requests of one client that are all in progress at the same time."""
    present = threading.Barrier(count)

    def hold(request: BaseHTTPRequestHandler) -> None:
        present.wait(30)
        respond(request, 200)

    receiver.responders["/hold"] = hold
    with ThreadPoolExecutor(count) as threads:
        responses = list(threads.map(lambda _: post(receiver.url("/hold")), range(count)))
    assert [response.status for response in responses] == [200] * count


def open_ports(receiver: Receiver) -> set[int]:
    """Return the local ports of this process's open connections to a receiver."""
    sockets = psutil.Process().net_connections("tcp")
    return {one.laddr.port for one in sockets if one.raddr and one.raddr.port == receiver.port}


def ports_of(receiver: Receiver, *numbers: int) -> set[int]:
    """Return the ports from which some requests were sent, by their order of arrival."""
    return {receiver.received[number].sender_port for number in numbers}


def test_a_client_has_few_idle_connections(
    receiver: Receiver, post: Post, connections: ConnectionPool, settings: Settings
) -> None:
    settings.WEBHOOK_IN_FLIGHT = 2
    post_at_once(receiver, post, count=4)
    assert len(open_ports(receiver)) == 2
    connections.close()
    assert open_ports(receiver) == set()


def test_connections_of_the_clients_used_last_are_kept(
    receiver: Receiver, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "MAX_SESSIONS", 2)
    for client_id in (1, 2, 1, 3):
        assert post(receiver.url(), client_id=client_id).status == 200
    assert open_ports(receiver) == ports_of(receiver, 0, 3)


def test_few_connections_are_kept_for_a_short_time() -> None:
    assert (connection_pool.MAX_SESSIONS, connection_pool.IDLE_SECONDS) == (64, 4)


def test_a_busy_connection_is_replaced_after_a_minute(
    receiver: Receiver, post: Post, clock: Callable[[float], None]
) -> None:
    for _ in range(30):
        assert post(receiver.url()).status == 200
        clock(3)
    assert len(receiver.connections()) == 2
    assert ports_of(receiver, 0) == ports_of(receiver, 19)
    assert open_ports(receiver) == ports_of(receiver, 20) == ports_of(receiver, 29)


def test_connections_close_after_a_short_idle_time(
    receiver: Receiver, post: Post, connections: ConnectionPool, clock: Callable[[float], None]
) -> None:
    assert post(receiver.url(), client_id=1).status == 200
    clock(3)
    assert post(receiver.url(), client_id=2).status == 200
    clock(1)
    connections.close_expired()
    assert open_ports(receiver) == ports_of(receiver, 1)
    clock(3)
    assert post(receiver.url(), client_id=2).status == 200
    assert open_ports(receiver) == ports_of(receiver, 2)


def test_an_idle_connection_of_a_busy_client_is_not_used(
    receiver: Receiver, post: Post, clock: Callable[[float], None]
) -> None:
    post_at_once(receiver, post, count=2)
    clock(3)
    assert post(receiver.url()).status == 200
    clock(3)
    post_at_once(receiver, post, count=2)
    assert ports_of(receiver, 2) < ports_of(receiver, 3, 4)
    assert len(receiver.connections()) == 3


@pytest.mark.parametrize("path", ["/silence", "/half", "/reset", "/nonsense", "/103", "/301"])
def test_no_connection_is_left_after_a_failure(
    path: str, receiver: Receiver, post: Post, connections: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    post_at_once(receiver, post, count=2)
    receiver.keeps_open = path != "/half"
    if path == "/silence":
        monkeypatch.setattr(http_client, "TIMEOUT_SECONDS", 0.4)
    post(receiver.url(path))
    assert len(open_ports(receiver)) == (2 if path == "/301" else 1)
    connections.close()
    assert open_ports(receiver) == set()


def test_a_session_that_was_closed_meanwhile_is_replaced(
    receiver: Receiver, post: Post, connections: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Pool.urlopen

    def close_first(pool: Pool, *arguments: Any, **options: Any) -> BaseHTTPResponse:
        monkeypatch.undo()
        connections.close()
        return request(pool, *arguments, **options)

    monkeypatch.setattr(Pool, "urlopen", close_first)
    assert post(receiver.url()).status == 200


def test_a_request_is_not_resent_over_an_idle_connection(
    receiver: Receiver, post: Post, connections: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drop_used(request: BaseHTTPRequestHandler) -> None:
        if request.client_address[1] in {each.sender_port for each in receiver.received[:-1]}:
            hang_up(request)
        else:
            respond(request, 200)

    def of_after_another(client_id: int, host: str, port: int) -> ServerSession:
        if len(receiver.received) == 2:
            monkeypatch.undo()
            with ThreadPoolExecutor(1) as threads:
                assert threads.submit(post, receiver.url("/204")).result().status == 204
        return of(client_id, host, port)

    of = connections.of
    monkeypatch.setattr(connections, "of", of_after_another)
    receiver.responders["/200"] = drop_used
    assert [post(receiver.url()).status for _ in range(2)] == [200, 200]
    assert len(receiver.received) == len(receiver.connections()) + 1 == 4
