"""Connections that are kept for the next delivery, and when they must not be used again."""

import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler

import pytest
from pytest_django import Settings

from simservice.network import addresses
from tests.webhooks.conftest import Post
from tests.webhooks.receivers import Authority, Receiver, be_silent, hang_up, receiving, reset, respond, send
from webhooks import http_client

Respond = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture(autouse=True)
def _keeps_open(receiver: Receiver) -> None:
    receiver.keeps_open = True


def first_then(receiver: Receiver, later: Respond) -> str:
    """Return a URL whose first request on each connection succeeds; later ones get another response."""
    used = set[int]()

    def behave(request: BaseHTTPRequestHandler) -> None:
        if request.client_address[1] in used:
            later(request)
        else:
            used.add(request.client_address[1])
            respond(request, 200)

    receiver.responders["/first"] = behave
    return receiver.url("/first")


def test_the_next_delivery_uses_the_same_connection(receiver: Receiver, post: Post) -> None:
    for status in (200, 204, 304, 404, 503):
        response = post(receiver.url(f"/{status}"))
        assert (response.status, response.problem, response.address) == (status, "", "127.0.0.1")
    assert len(receiver.received) == 5
    assert len(receiver.connections()) == 1


def test_a_chunked_response_keeps_the_connection(receiver: Receiver, post: Post) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nthank\r\n1\r\ns\r\n0\r\n\r\n"
    receiver.responders["/chunked"] = partial(send, chunked)
    assert [post(receiver.url("/chunked")).body for _ in range(2)] == [b"thanks", b"thanks"]
    assert len(receiver.connections()) == 1


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_a_response_without_a_body_ends_at_once(receiver: Receiver, post: Post, status: str) -> None:
    receiver.responders["/bare"] = partial(
        send, f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    response = post(receiver.url("/bare"))
    assert (response.status, response.problem) == (int(status[:3]), "")


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("Content-Length: 2\r\nTransfer-Encoding: gzip, chunked", id="another encoding"),
        pytest.param("Content-Length: 7\r\nTransfer-Encoding: chunked", id="length and chunks"),
    ],
)
def test_an_ambiguous_response_closes_its_connection(receiver: Receiver, post: Post, head: str) -> None:
    body = "2\r\nok\r\n0\r\n\r\n" if head.endswith(": chunked") else "ok"
    receiver.responders["/odd"] = partial(send, f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}".encode())
    assert [post(receiver.url("/odd")).status for _ in range(2)] == [200, 200]
    assert len(receiver.connections()) == 2


def test_a_negative_chunk_size_keeps_the_status(receiver: Receiver, post: Post) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n"
    receiver.responders["/negative"] = partial(send, chunked)
    response = post(receiver.url("/negative"))
    assert (response.status, response.problem) == (200, "")


def test_addresses_are_checked_before_an_idle_connection_is_used(
    receiver: Receiver, post: Post, settings: Settings, resolve_to: Callable[..., None]
) -> None:
    url = f"https://receiver.example.com:{receiver.port}/200"
    settings.WEBHOOK_ALLOWED_ADDRESSES = [f"receiver.example.com:{receiver.port}"]
    resolve_to("127.0.0.1")
    assert post(url).status == 200
    settings.WEBHOOK_ALLOWED_ADDRESSES = []
    assert post(url).problem == "address"
    assert len(receiver.received) == 1


def test_the_name_is_resolved_for_each_delivery(
    receiver: Receiver, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved, ask = [], addresses.ask_resolver

    def ask_resolver(host: str, port: int) -> Future[list[str]]:
        resolved.append((host, port))
        return ask(host, port)

    monkeypatch.setattr(addresses, "ask_resolver", ask_resolver)
    assert [post(receiver.url()).status for _ in range(3)] == [200] * 3
    assert resolved == [("localhost", receiver.port)] * 3
    assert len(receiver.connections()) == 1


def test_a_connection_to_an_earlier_address_is_closed(
    receiver: Receiver, post: Post, resolve_to: Callable[..., None]
) -> None:
    resolve_to("127.0.0.1")
    assert post(receiver.url()).status == 200
    # No server listens on this address.
    resolve_to("127.0.0.2")
    assert post(receiver.url()).problem == "connection"
    resolve_to("127.0.0.1")
    assert post(receiver.url()).status == 200
    assert len(receiver.connections()) == len(receiver.received) == 2


def test_the_connection_can_be_to_any_checked_address(
    receiver: Receiver, post: Post, resolve_to: Callable[..., None]
) -> None:
    resolve_to("127.0.0.1")
    assert post(receiver.url()).status == 200
    resolve_to("127.0.0.2", "127.0.0.1")
    assert post(receiver.url()).address == "127.0.0.1"
    assert len(receiver.connections()) == 1


def test_clients_and_hosts_share_no_connections(
    receiver: Receiver, post: Post, settings: Settings, resolve_to: Callable[..., None]
) -> None:
    other_host = f"receiver.example.com:{receiver.port}"
    settings.WEBHOOK_ALLOWED_ADDRESSES = [receiver.address, other_host]
    resolve_to("127.0.0.1")
    assert post(receiver.url(), client_id=1).status == 200
    assert post(receiver.url(), client_id=2).status == 200
    assert post(f"https://{other_host}/200", client_id=1).status == 200
    assert len(receiver.connections()) == 3


def test_ports_share_no_connections(
    receiver: Receiver, post: Post, authority: Authority, settings: Settings
) -> None:
    with receiving(authority) as other:
        settings.WEBHOOK_ALLOWED_ADDRESSES = [receiver.address, other.address]
        assert [post(receiver.url()).status, post(other.url()).status] == [200, 200]
        assert len(receiver.received) == len(other.received) == 1


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
NOT_KEPT: dict[str, bytes] = {
    "closed by the server": OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
    "HTTP/1.0": OK.replace(b"1.1", b"1.0"),
    "more than the response": OK + OK.replace(b"200", b"500"),
    "more than the chunks": OK.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked").replace(
        b"ok", b"2\r\nok\r\n0\r\n\r\nmore"
    ),
    "a longer body than is read": OK.replace(b": 2", b": 70000") + b"a" * 69_998,
    "a body as long as the limit and more": OK.replace(b": 2", b": 65537") + b"a" * 65_535,
    "a chunk as long as the limit": OK.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked").replace(
        b"ok", b"10000\r\n" + b"a" * 65_536 + b"\r\n0\r\n\r\n"
    ),
}


@pytest.mark.parametrize("content", NOT_KEPT.values(), ids=NOT_KEPT)
def test_a_connection_is_not_kept_after(content: bytes, receiver: Receiver, post: Post) -> None:
    receiver.responders["/any"] = partial(send, content)
    assert [post(receiver.url("/any")).status for _ in range(2)] == [200, 200]
    assert len(receiver.received) == len(receiver.connections()) == 2


@pytest.mark.parametrize("path", ["/drip", "/huge", "/half", "/nonsense", "/103"])
def test_an_incomplete_response_closes_its_connection(
    path: str, receiver: Receiver, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.keeps_open = path != "/half"
    with monkeypatch.context() as patch:
        if path == "/drip":
            patch.setattr(http_client, "TIMEOUT_SECONDS", 0.4)
        post(receiver.url(path))
    receiver.responders[path] = lambda request: respond(request, 200)
    assert post(receiver.url(path)).status == 200
    assert len(receiver.connections()) == 2


def test_data_that_follows_a_response_is_never_read(receiver: Receiver, post: Post) -> None:
    followed = threading.Event()

    def respond_twice(request: BaseHTTPRequestHandler) -> None:
        respond(request, 200)
        request.wfile.flush()
        assert proceed.wait(30)
        respond(request, 500)
        request.wfile.flush()
        followed.set()

    proceed = threading.Event()
    receiver.responders["/twice"] = respond_twice
    assert post(receiver.url("/twice")).status == 200
    proceed.set()
    assert followed.wait(30)
    assert post(receiver.url("/200")).status == 200
    assert len(receiver.connections()) == 2


def test_a_connection_closed_while_idle_is_replaced(receiver: Receiver, post: Post) -> None:
    receiver.keeps_open = False
    assert [post(receiver.url()).status for _ in range(3)] == [200] * 3
    assert len(receiver.received) == len(receiver.connections()) == 3


@pytest.mark.parametrize("close", [hang_up, reset])
def test_a_request_is_resent_if_its_connection_closes(close: Respond, receiver: Receiver, post: Post) -> None:
    url = first_then(receiver, close)
    assert post(url).status == 200
    response = post(url, body=b'{"n": 2}')
    assert (response.status, response.problem) == (200, "")
    _, dropped, resent = receiver.received
    assert (dropped.headers, dropped.body) == (resent.headers, resent.body)
    assert dropped.sender_port != resent.sender_port


@pytest.mark.parametrize("close", [hang_up, reset])
def test_a_request_is_resent_only_once(close: Respond, receiver: Receiver, post: Post) -> None:
    assert post(receiver.url()).status == 200
    receiver.responders["/200"] = close
    assert post(receiver.url()).problem == "connection"
    assert len(receiver.received) == 3


def test_a_request_on_a_new_connection_is_not_resent(receiver: Receiver, post: Post) -> None:
    assert post(receiver.url("/hang-up")).problem == "connection"
    assert len(receiver.received) == 1


@pytest.mark.parametrize("problem", ["protocol", "connection"])
def test_a_request_is_not_resent_once_a_response_begins(
    problem: str, receiver: Receiver, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 ")
        hang_up(request)

    def receive(connection: ssl.SSLSocket, buffer: memoryview) -> int:
        count = recv_into(connection, buffer)
        # A reset raises this error, or looks like the end of the data.
        if not count and problem == "connection":
            raise ConnectionResetError
        return count

    url, recv_into = first_then(receiver, break_off), ssl.SSLSocket.recv_into
    assert post(url).status == 200
    monkeypatch.setattr(ssl.SSLSocket, "recv_into", receive)
    assert post(url).problem == problem
    assert len(receiver.received) == 2


def test_a_request_that_times_out_is_not_resent(
    receiver: Receiver, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = first_then(receiver, be_silent)
    assert post(url).status == 200
    monkeypatch.setattr(http_client, "TIMEOUT_SECONDS", 0.8)
    assert post(url).problem == "timeout"
    assert len(receiver.received) == 2


@pytest.mark.slow
def test_a_resent_request_has_no_further_time(
    receiver: Receiver, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "TIMEOUT_SECONDS", 3.0)

    def close_late(request: BaseHTTPRequestHandler) -> None:
        receiver.responders["/first"] = be_silent
        time.sleep(1.7)
        hang_up(request)

    url = first_then(receiver, close_late)
    assert post(url).status == 200
    response = post(url)
    assert (response.problem, len(receiver.received)) == ("timeout", 3)
    assert 3000 <= response.duration_ms < 4500


def test_threads_never_share_a_connection(receiver: Receiver, post: Post, settings: Settings) -> None:
    settings.WEBHOOK_IN_FLIGHT = 8
    statuses = [400 + number % 90 for number in range(400)]
    with ThreadPoolExecutor(8) as threads:
        responses = list(threads.map(lambda status: post(receiver.url(f"/{status}")), statuses))
    assert [response.status for response in responses] == statuses
    assert len(receiver.received) == 400
    assert len(receiver.connections()) <= 8
