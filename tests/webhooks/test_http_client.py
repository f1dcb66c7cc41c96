"""Requests to receivers that respond correctly, wrongly, slowly or not at all, over real TLS."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pytest_django import Settings
from requests import adapters

from localstack.redis_server import free_port
from tests.webhooks.receivers import Authority, Receiver, respond, send
from webhooks import connection_pool, http_client
from webhooks.connection_pool import ConnectionPool
from webhooks.http_client import Response

HEADERS = {"X-Service-Event-Id": "evt_1", "Content-Type": "application/json"}


def post(url: str, body: bytes = b'{"kind": "job.terminal"}') -> Response:
    with closing(ConnectionPool()) as connections:
        return http_client.post(url, HEADERS, body, client_id=1, connections=connections)


def test_the_timeout_is_ten_seconds() -> None:
    assert http_client.TIMEOUT_SECONDS == 10


@pytest.mark.parametrize("status", [200, 201, 204, 299, 301, 302, 304, 400, 404, 408, 410, 429, 500, 503, 599])
def test_the_status_is_returned(status: int, receiver: Receiver) -> None:
    response = post(receiver.url(f"/{status}"))
    assert (response.status, response.problem, response.address) == (status, "", "127.0.0.1")
    assert len(receiver.received) == 1


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    assert post(receiver.url("/301")).status == 301
    assert [request.path for request in receiver.received] == ["/301"]


def test_the_request_has_the_given_headers_and_body(receiver: Receiver) -> None:
    assert post(receiver.url("/200?key=value")).status == 200
    (request,) = receiver.received
    assert request.body == b'{"kind": "job.terminal"}'
    assert (request.path, request.headers["Host"]) == ("/200?key=value", receiver.address)
    assert HEADERS.items() <= request.headers.items()


@pytest.mark.parametrize("path", ["/silence", "/drip", "/drip-headers"])
def test_a_slow_response_times_out(path: str, receiver: Receiver, short_timeout: None) -> None:
    started = time.monotonic()
    response = post(receiver.url(path))
    # None of the responses ever ends.
    assert response.problem == "timeout"
    assert time.monotonic() - started >= 0.4
    assert response.duration_ms >= 400


def test_a_body_that_never_ends_times_out(receiver: Receiver, short_timeout: None) -> None:
    response = post(receiver.url("/drip"))
    assert (response.status, response.problem) == (200, "timeout")


@pytest.mark.parametrize(("path", "problem"), [("/reset", "connection"), ("/hang-up", "connection")])
def test_a_broken_connection_is_reported(path: str, problem: str, receiver: Receiver) -> None:
    response = post(receiver.url(path))
    assert (response.status, response.problem) == (None, problem)


def test_an_incomplete_body_keeps_the_status(receiver: Receiver) -> None:
    response = post(receiver.url("/half"))
    assert (response.status, response.problem) == (200, "")


def test_only_the_beginning_of_a_huge_body_is_read(receiver: Receiver) -> None:
    response = post(receiver.url("/huge"))
    assert (response.status, len(response.body), response.problem) == (200, 64 * 1024, "")


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/nonsense", "The response is not valid HTTP: BadStatusLine."),
        ("/continue", "The response headers are longer than 131072 bytes."),
        ("/103", "The response's status, 103, is not final."),
    ],
)
def test_an_invalid_response_is_reported(path: str, detail: str, receiver: Receiver) -> None:
    response = post(receiver.url(path))
    assert (response.status, response.problem, response.detail) == (None, "protocol", detail)


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "no colon",
        "Content-Encoding: " + "gzip, " * 9 + "gzip",
        "\xe9: \xe9",
    ],
)
def test_an_odd_header_keeps_the_status_and_is_not_logged(
    head: str, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    response = f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode("latin-1")
    receiver.responders["/secret"] = partial(send, response)
    result = post(receiver.url("/secret"))
    assert (result.status, result.problem, caplog.records) == (200, "", [])


def test_lengths_that_differ_are_invalid(receiver: Receiver) -> None:
    content = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!"
    receiver.responders["/two"] = partial(send, content)
    assert post(receiver.url("/two")).problem == "protocol"


@pytest.mark.parametrize("path", ["//example.com:x/200", "//[", "/%zz", "/a?b=//c"])
def test_odd_paths_reach_the_receiver(path: str, receiver: Receiver) -> None:
    receiver.responders = {
        odd: partial(respond, status=200) for odd in ("/example.com:x/200", "/%5B", "/%25zz", path)
    }
    assert post(receiver.url(path)).status == 200


def test_retry_after_is_returned(receiver: Receiver) -> None:
    assert post(receiver.url("/429")).retry_after == "20"


def test_the_certificate_must_match_the_host_name(
    receiver: Receiver, settings: Settings, resolve_to: Callable[..., None]
) -> None:
    settings.WEBHOOK_ALLOWED_ADDRESSES = [f"localhost.localdomain:{receiver.port}", f"127.0.0.2:{receiver.port}"]
    response = post(f"https://127.0.0.2:{receiver.port}/200")
    # No server listens on this address.
    assert response.problem == "connection"
    resolve_to("127.0.0.1")
    response = post(f"https://localhost.localdomain:{receiver.port}/200")
    assert (response.problem, receiver.received) == ("tls", [])
    assert response.detail == (
        "Hostname mismatch, certificate is not valid for 'localhost.localdomain'. "
        "Install a certificate that includes the host name of the webhook's URL."
    )


def test_a_wrong_ip_address_is_explained(
    receiver: Receiver, settings: Settings, resolve_to: Callable[..., None]
) -> None:
    settings.WEBHOOK_ALLOWED_ADDRESSES = [f"127.0.0.2:{receiver.port}"]
    resolve_to("127.0.0.1")
    response = post(f"https://127.0.0.2:{receiver.port}/200")
    assert response.detail == (
        "IP address mismatch, certificate is not valid for '127.0.0.2'. "
        "Install a certificate that includes the IP address, or use a host name in the webhook's URL."
    )


def test_the_certificate_must_be_trusted(receiver: Receiver, settings: Settings) -> None:
    settings.WEBHOOK_CA_FILE = ""
    response = post(receiver.url())
    assert (response.problem, receiver.received) == ("tls", [])


def test_the_authorities_of_requests_are_not_trusted(
    receiver: Receiver, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters, "DEFAULT_CA_BUNDLE_PATH", settings.WEBHOOK_CA_FILE)
    settings.WEBHOOK_CA_FILE = ""
    assert post(receiver.url()).problem == "tls"


@pytest.fixture
def listener(settings: Settings) -> Iterator[Callable[[Callable[[socket.socket], Any]], str]]:
    """Return a function that starts a server without TLS, with a callback for its connection."""
    listening = []

    def listen(behave: Callable[[socket.socket], Any]) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        listening.append(server)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        settings.WEBHOOK_ALLOWED_ADDRESSES = [address]

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                behave(connection)

        threading.Thread(target=serve, daemon=True).start()
        return f"https://{address}/"

    yield listen
    for server in listening:
        server.close()


def test_nothing_is_sent_over_plain_http(listener: Any) -> None:
    received = bytearray()

    def respond_without_tls(connection: socket.socket) -> None:
        received.extend(connection.recv(4096))
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    response = post(listener(respond_without_tls))
    assert (response.status, response.problem) == (None, "tls")
    assert b"job.terminal" not in received


def test_a_hanging_handshake_times_out(listener: Any, short_timeout: None) -> None:
    # Longer than any pause of a busy machine; the thread ends with the process.
    assert post(listener(lambda _: time.sleep(30))).problem == "timeout"


def test_a_handshake_can_take_all_the_time_left(
    listener: Any, resolve_to: Callable[..., None], short_timeout: None
) -> None:
    url = listener(lambda _: time.sleep(30))
    # Each address has a quarter of the time to accept the connection.
    resolve_to("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
    response = post(url)
    assert (response.problem, response.address) == ("timeout", "127.0.0.1")
    assert 400 <= response.duration_ms < 5000


def test_a_receiver_that_reads_slowly_times_out(
    listener: Any,
    authority: Authority,
    settings: Settings,
    connections: ConnectionPool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.WEBHOOK_CA_FILE = str(authority.ca_file)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.server_file)

    def respond_once(connection: socket.socket) -> None:
        with suppress(OSError), tls.wrap_socket(connection, server_side=True) as secured:
            secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" if secured.recv(9999) else b"")
            while secured.recv(65_536):
                time.sleep(0.05)

    url = listener(respond_once)
    assert http_client.post(url, {}, b"", client_id=1, connections=connections).status == 200
    monkeypatch.setattr(http_client, "TIMEOUT_SECONDS", 0.8)
    response = http_client.post(url, {}, b"a" * 50_000_000, client_id=1, connections=connections)
    assert (response.problem, response.address) == ("timeout", "127.0.0.1")
    assert response.duration_ms < 5000


def test_old_versions_of_tls_are_refused() -> None:
    assert connection_pool.tls_context("").minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_refused_connection_is_reported(settings: Settings) -> None:
    port = free_port()
    settings.WEBHOOK_ALLOWED_ADDRESSES = [f"127.0.0.1:{port}"]
    response = post(f"https://127.0.0.1:{port}/")
    assert (response.problem, response.detail) == ("connection", "Could not connect: Connection refused.")


def test_a_hanging_resolver_is_abandoned(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, short_timeout: None
) -> None:
    woken = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [][: woken.wait(60)])
    assert post(receiver.url()).problem == "dns"
    assert not woken.is_set()
    woken.set()


def test_a_name_that_does_not_resolve_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_to_resolve(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail_to_resolve)
    response = post("https://hooks.nowhere.com/")
    assert (response.problem, response.detail) == (
        "dns",
        "The name hooks.nowhere.com does not resolve to any address.",
    )


def test_the_next_address_is_tried_if_one_fails(receiver: Receiver, resolve_to: Callable[..., None]) -> None:
    resolve_to("::1", "127.0.0.3", "127.0.0.1")
    response = post(receiver.url())
    assert (response.status, response.address) == (200, "127.0.0.1")


def test_settings_of_the_environment_are_ignored(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    (tmp_path / "netrc").write_text("machine localhost login eve password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "missing"))
    assert post(receiver.url()).status == 200
    assert "Authorization" not in receiver.received[0].headers


def test_cookies_are_not_kept(receiver: Receiver, connections: ConnectionPool) -> None:
    receiver.responders["/cookie"] = partial(respond, status=200, set_cookie="name=value; Path=/")
    for _ in range(2):
        url = receiver.url("/cookie")
        assert http_client.post(url, {}, b"", client_id=1, connections=connections).status == 200
    assert ["Cookie" in request.headers for request in receiver.received] == [False, False]


@pytest.mark.parametrize("location", ["https://[bad", "http://", "//", "x" * 9000, "https://localhost/\xe9"])
def test_the_target_of_a_redirect_is_not_used(location: str, receiver: Receiver) -> None:
    head = f"HTTP/1.1 301 Moved\r\nLocation: {location}\r\nContent-Length: 999999\r\n\r\n".encode("latin-1")
    receiver.responders["/moved"] = partial(send, head + b"a" * 70_000)
    response = post(receiver.url("/moved"))
    assert (response.status, response.problem, response.location) == (301, "", location)
    assert len(response.body) == 64 * 1024


def test_no_response_raises_an_error(receiver: Receiver, short_timeout: None) -> None:
    random = Random(8)  # noqa: S311
    pieces = [
        b"HTTP/1.1 ",
        b"200",
        b" OK\r\n",
        b"\r\n",
        b"Content-Length: ",
        b"-1",
        b"9" * 30,
        b"\xff\0",
        b": ",
        b"\n",
    ]
    pieces += [b"Transfer-Encoding: chunked\r\n", b"Retry-After: \xe9\r\n", b"HTTP/9.9 99999\r\n", b"a" * 70_000]
    for _ in range(150):
        content = b"".join(random.choices(pieces, k=random.randrange(12)))

        receiver.responders["/any"] = partial(send, content)
        response = post(receiver.url("/any"))
        assert response.status is not None or response.problem
