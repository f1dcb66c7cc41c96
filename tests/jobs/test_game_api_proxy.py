"""A simulator's proxy, asked over real sockets by clients of every kind; the game platform is a local server."""

import asyncio
import errno
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from jobs.runs import game_api_proxy
from jobs.runs.game_api_proxy import GameApiProxy, connect_to, require_public_names
from tests.localstack.conftest import eventually
from tests.webhooks.receivers import make_authority, receiving

HOST = "us.battle.net"
# Any public addresses: nothing in these tests connects to them.
PUBLIC, PUBLIC_V6 = "93.184.215.14", "2606:2800:21f::1"
CONNECT = f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n".encode()
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
MEGABYTE = 1 << 20


def found(*addresses: str) -> Future[list[str]]:
    """Return a resolver's finished answer."""
    answer: Future[list[str]] = Future()
    answer.set_result(list(addresses))
    return answer


class Platform:
    """A server in the game platform's place, and a resolver that knows names of it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.addresses: tuple[str, ...] = (PUBLIC,)
        self.asked: list[str] = []
        self.connected: list[list[str]] = []

    def resolve(self, host: str) -> Future[list[str]]:
        self.asked.append(host)
        return found(*self.addresses)

    async def connect(self, addresses: Sequence[str]) -> socket.socket:
        """Connect to the test server, whatever the address."""
        self.connected.append(list(addresses))
        with ExitStack() as opened:
            upstream = opened.enter_context(socket.socket())
            upstream.settimeout(0)
            await asyncio.get_running_loop().sock_connect(upstream, ("127.0.0.1", self.port))
            opened.pop_all()
            return upstream


class Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def handle_error(self, *_: Any) -> None:
        """Say nothing of what a test's client broke off."""


@contextmanager
def serving(behave: Callable[[socket.socket], object]) -> Iterator[Platform]:
    """Run a platform that does something with every connection."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(30)
            behave(self.request)

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Platform(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def echo(connection: socket.socket) -> None:
    """Return every byte, and the end of the stream behind them."""
    while data := connection.recv(65536):
        connection.sendall(data)


def send_for_ever(connection: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection.sendall(bytes(65536))


def take_all(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


@pytest.fixture
def platform() -> Iterator[Platform]:
    """A platform that echoes."""
    with serving(echo) as running:
        yield running


class Client:
    """What a simulator can do: connect to the proxy, and send what it likes."""

    def __init__(self, port: int) -> None:
        self.port = port

    def connect(self) -> socket.socket:
        """Connect without the resolver, which some tests replace."""
        with ExitStack() as opened:
            connection = opened.enter_context(socket.socket())
            connection.settimeout(20)
            connection.connect(("127.0.0.1", self.port))
            opened.pop_all()
            return connection

    def is_refused(self) -> bool:
        """Return whether nothing listens any more."""
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == errno.ECONNREFUSED

    def opens_tunnel(self) -> bool:
        """Return whether the proxy opens one more tunnel."""
        with self.connect() as connection:
            connection.sendall(CONNECT)
            return read(connection, len(ESTABLISHED)) == ESTABLISHED

    def ask(self, request: bytes) -> bytes:
        """Return all that a request is answered with until the proxy closes the connection."""
        with self.connect() as connection:
            with suppress(ConnectionError):
                connection.sendall(request)
            return read_to_end(connection)

    def tunnel(self, request: bytes = CONNECT) -> socket.socket:
        """Return an open tunnel."""
        with ExitStack() as opened:
            connection = opened.enter_context(self.connect())
            connection.sendall(request)
            assert read(connection, len(ESTABLISHED)) == ESTABLISHED
            opened.pop_all()
            return connection

    def connect_to(self, target: str) -> int:
        """Return the status that a CONNECT is answered with."""
        return status(self.ask(f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode("latin-1")))


def read(connection: socket.socket, count: int) -> bytes:
    """Read so many bytes, or up to the end."""
    data = b""
    while len(data) < count and (more := connection.recv(count - len(data))):
        data += more
    return data


def read_to_end(connection: socket.socket) -> bytes:
    """Read until the proxy closes the connection in either way."""
    data = bytearray()
    with suppress(ConnectionError):
        while more := connection.recv(65536):
            data += more
    return bytes(data)


def status(answer: bytes) -> int:
    """Return the status of a complete HTTP response that is the connection's last."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"\r\nContent-Length: {len(body)}\r\n".encode() in head
    assert head.endswith(b"\r\nConnection: close")
    return int(head.split(b" ")[1])


@contextmanager
def proxying(platform: Platform, **options: Any) -> Iterator[Client]:
    """Run a proxy for as long as the block."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    given: dict[str, Any] = {"resolve": platform.resolve, "connect": platform.connect} | options
    port = listener.getsockname()[1]
    with GameApiProxy(listener, hosts=settings.GAME_API_HOSTS, job_id=7, **given):
        yield Client(port)


@pytest.fixture
def client(platform: Platform) -> Iterator[Client]:
    """A client of a proxy to the echoing platform."""
    with proxying(platform) as running:
        yield running


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Change limits, by the names of their constants."""

    def change(**values: float) -> None:
        for name, value in values.items():
            monkeypatch.setattr(game_api_proxy, name, value)

    return change


Limit = Callable[..., None]


def answer_for_host(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], list[Any]]) -> None:
    """Replace the system's answer for the allowed host alone, so that nothing else is led astray."""
    real = socket.getaddrinfo

    def look_up(host: Any, *args: Any, **options: Any) -> list[Any]:
        return answer() if host == HOST else real(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


class TestTunnel:
    def test_bytes_are_carried_both_ways(self, client: Client, platform: Platform) -> None:
        sent = os.urandom(MEGABYTE)
        with client.tunnel() as tunnel:
            writer = threading.Thread(target=tunnel.sendall, args=[sent])
            writer.start()
            assert read(tunnel, len(sent)) == sent
            writer.join()
        assert (platform.asked, platform.connected) == ([HOST], [[PUBLIC]])

    def test_tls_reaches_the_server_with_its_own_name(self, platform: Platform, tmp_path: Path) -> None:
        authority = make_authority(tmp_path)
        trusting = ssl.create_default_context(cafile=authority.ca_file)
        with receiving(authority) as receiver:
            platform.port = receiver.port
            with (
                proxying(platform) as client,
                client.tunnel() as tunnel,
                trusting.wrap_socket(tunnel, server_hostname="localhost") as secured,
            ):
                secured.sendall(b"POST /200 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
                assert secured.recv(12) == b"HTTP/1.1 200"

    def test_a_half_closed_tunnel_still_carries_the_answer(self, client: Client) -> None:
        with client.tunnel() as tunnel:
            tunnel.sendall(b"the whole question")
            tunnel.shutdown(socket.SHUT_WR)
            assert read_to_end(tunnel) == b"the whole question"

    def test_bytes_sent_behind_the_request_are_carried(self, client: Client) -> None:
        with client.tunnel(CONNECT + b"early\n\r\n\r\n") as tunnel:
            assert read(tunnel, 10) == b"early\n\r\n\r\n"

    def test_a_tunnel_ends_with_the_server(self) -> None:
        with serving(lambda _: None) as platform, proxying(platform) as client, client.tunnel() as tunnel:
            assert read_to_end(tunnel) == b""

    def test_an_idle_tunnel_is_closed(self, client: Client, limit: Limit) -> None:
        limit(IDLE_SECONDS=0.3)
        with client.tunnel() as tunnel:
            started = time.monotonic()
            assert read_to_end(tunnel) == b""
            assert 0.2 < time.monotonic() - started < 5

    def test_a_half_closed_idle_tunnel_is_closed(self, limit: Limit) -> None:
        limit(IDLE_SECONDS=0.3)
        with serving(lambda _: time.sleep(5)) as platform, proxying(platform) as client, client.tunnel() as tunnel:
            tunnel.shutdown(socket.SHUT_WR)
            started = time.monotonic()
            assert read_to_end(tunnel) == b""
            assert time.monotonic() - started < 4

    def test_a_tunnel_in_use_outlives_the_idle_time(self, client: Client, limit: Limit) -> None:
        limit(IDLE_SECONDS=2)
        with client.tunnel() as tunnel:
            for _ in range(16):
                tunnel.sendall(b".")
                assert tunnel.recv(1) == b"."
                time.sleep(0.15)

    def test_nothing_is_read_ahead_of_a_slow_reader(self) -> None:
        sent = 0

        def count(connection: socket.socket) -> None:
            nonlocal sent
            connection.settimeout(0.5)
            with suppress(TimeoutError):
                while True:
                    sent += connection.send(bytes(65536))

        with serving(count) as platform, proxying(platform) as client, client.tunnel():
            time.sleep(1.5)
        # Only the kernel's buffers were filled: without backpressure it would be all that may be downloaded.
        assert 0 < sent < 32 * MEGABYTE


class TestTarget:
    @pytest.mark.parametrize("host", settings.GAME_API_HOSTS)
    def test_every_listed_host_can_be_reached(self, host: str, client: Client, platform: Platform) -> None:
        client.tunnel(f"CONNECT {host}:443 HTTP/1.0\r\n\r\n".encode()).close()
        assert platform.asked == [host]

    def test_a_name_is_the_same_in_capitals(self, client: Client, platform: Platform) -> None:
        client.tunnel(b"CONNECT US.BATTLE.NET:443 HTTP/1.1\r\n\r\n").close()
        assert platform.asked == [HOST]

    @pytest.mark.parametrize(
        "target",
        [
            "us.battle.net:80",
            "us.battle.net:0443",
            "us.battle.net:65535",
            "us.battle.net.:443",
            "evil.us.battle.net:443",
            "battle.net:443",
            "example.com:443",
            "localhost:443",
            "127.0.0.1:5432",
            "127.0.0.1:443",
            "2130706433:443",
            "169.254.169.254:443",
            "[::1]:443",
            f"[::ffff:{PUBLIC}]:443",
            f"{PUBLIC}:443",
            "us_battle_net:443",
            "a" * 5000 + ":443",
        ],
    )
    def test_any_other_destination_is_refused(self, target: str, client: Client, platform: Platform) -> None:
        assert client.connect_to(target) == 403
        assert platform.asked == []

    @pytest.mark.parametrize(
        "target",
        [
            "us.battle.net",
            "us.battle.net:",
            "us.battle.net:443@evil",
            "us.battle.net:443@evil:443",
            "us.battle.net:443:443",
            "us.battle.net:443/",
            "evil@us.battle.net:443",
            "us.battle.net%00.evil:443",
            "us.battle.net\0:443",
            "us.battle.net\u00ad:443",
            "https://us.battle.net:443",
            "us.battle.net:\u0664\u0664\u0663".encode().decode("latin-1"),
            "us.battle.net:443 HTTP/1.1 x",
            "[us.battle.net]:443",
            ":443",
            "*",
        ],
    )
    def test_a_malformed_destination_is_refused(self, target: str, client: Client, platform: Platform) -> None:
        assert client.connect_to(target) == 400
        assert platform.asked == []

    @pytest.mark.parametrize(
        "addresses",
        [
            ["10.0.0.1"],
            ["127.0.0.1"],
            ["169.254.169.254"],
            [PUBLIC, "192.168.0.1"],
            [PUBLIC] * 9 + ["10.0.0.1"],
            [PUBLIC, "::1"],
            ["fe80::1%eth0"],
            [f"::ffff:{PUBLIC}"],
        ],
    )
    def test_a_name_with_a_private_address_is_refused(
        self, addresses: list[str], client: Client, platform: Platform
    ) -> None:
        platform.addresses = tuple(addresses)
        assert client.connect_to("us.battle.net:443") == 403
        assert platform.connected == []

    def test_only_a_names_first_addresses_are_tried(self, client: Client, platform: Platform) -> None:
        platform.addresses = (PUBLIC_V6, *[PUBLIC] * 9)
        client.tunnel().close()
        assert platform.connected == [[PUBLIC_V6, PUBLIC, PUBLIC, PUBLIC]]


class TestRequest:
    @pytest.mark.parametrize("method", ["GET", "POST", "connect", "OPTIONS", "PROPFIND"])
    def test_only_connect_is_supported(self, method: str, client: Client) -> None:
        answer = client.ask(f"{method} http://us.battle.net/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n".encode())
        assert status(answer) == 405
        assert b"\r\nAllow: CONNECT\r\n" in answer

    @pytest.mark.parametrize(
        "request_head",
        [
            b"\r\n\r\n",
            b"CONNECT us.battle.net:443\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/2.0\r\n\r\n",
            b"CONNECT  us.battle.net:443 HTTP/1.1\r\n\r\n",
            b"CONNECT\tus.battle.net:443 HTTP/1.1\r\n\r\n",
            b" CONNECT us.battle.net:443 HTTP/1.1\r\n\r\n",
            b"\r\nCONNECT us.battle.net:443 HTTP/1.1\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\n\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\nHost: x\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\rHost: x\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nHost: x\n\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nHost : x\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nno colon\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nX: \0\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\ntransfer-ENCODING: chunked\r\n\r\n0\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
            b"\x05\x01\x00\n",
        ],
    )
    def test_a_malformed_request_is_refused(self, request_head: bytes, client: Client, platform: Platform) -> None:
        assert status(client.ask(request_head)) == 400
        assert platform.asked == []

    def test_an_incomplete_request_is_refused(self, client: Client) -> None:
        with client.connect() as connection:
            connection.sendall(CONNECT[:-1])
            connection.shutdown(socket.SHUT_WR)
            assert status(read_to_end(connection)) == 400

    def test_headers_do_not_decide_the_destination(self, client: Client, platform: Platform) -> None:
        allowed, other = b"us.battle.net:443", b"evil.example:443"
        assert status(client.ask(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (other, allowed))) == 403
        client.tunnel(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (allowed, other)).close()
        assert platform.asked == [HOST]

    def test_a_second_request_is_not_answered(self, client: Client, platform: Platform) -> None:
        answer = client.ask(b"GET / HTTP/1.1\r\n\r\n" + CONNECT)
        assert (answer.count(b"HTTP/1.1"), platform.asked) == (1, [])

    @pytest.mark.parametrize("ending", [b"\r\n\r\n", b""], ids=["complete", "endless"])
    def test_a_huge_head_is_refused(self, ending: bytes, client: Client) -> None:
        assert status(client.ask(CONNECT[:-2] + b"X: " + b"x" * MEGABYTE + ending)) == 431

    def test_a_head_of_just_over_the_limit_is_refused(self, client: Client) -> None:
        base = CONNECT[:-2] + b"X: "
        most = base + b"x" * ((8 << 10) - len(base))
        client.tunnel(most + b"\r\n\r\n").close()
        assert status(client.ask(most + b"x\r\n\r\n")) == 431

    def test_a_slow_head_is_refused(self, client: Client, limit: Limit) -> None:
        limit(HEAD_SECONDS=0.4)
        with client.connect() as connection:
            for byte in CONNECT:
                with suppress(ConnectionError):
                    connection.send(bytes([byte]))
                time.sleep(0.02)
            assert status(read_to_end(connection)) == 408


class TestReaching:
    def test_a_name_without_addresses_is_a_bad_gateway(self, platform: Platform) -> None:
        def fail(_: str) -> Future[list[str]]:
            answer: Future[list[str]] = Future()
            answer.set_exception(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
            return answer

        with proxying(platform, resolve=fail) as client:
            assert client.connect_to("us.battle.net:443") == 502

    def test_a_refused_connection_is_a_bad_gateway(self, client: Client, platform: Platform) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            platform.port = closed.getsockname()[1]
        assert client.connect_to("us.battle.net:443") == 502

    @pytest.mark.parametrize("part", ["resolve", "connect"])
    def test_what_takes_too_long_is_a_gateway_timeout(self, part: str, platform: Platform, limit: Limit) -> None:
        async def hang(_: Sequence[str]) -> socket.socket:
            await asyncio.sleep(30)
            raise AssertionError

        limit(CONNECT_SECONDS=0.3)
        hanging: Any = hang if part == "connect" else lambda _: Future()
        with proxying(platform, **{part: hanging}) as client:
            assert client.connect_to("us.battle.net:443") == 504

    def test_the_systems_resolver_is_asked(self, platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.9", 443))
        answer_for_host(monkeypatch, lambda: [entry])
        with proxying(platform, resolve=game_api_proxy.resolve_host) as client:
            assert client.connect_to("us.battle.net:443") == 403

    def test_the_next_address_is_tried_when_one_refuses(self, platform: Platform, limit: Limit) -> None:
        limit(HTTPS_PORT=platform.port)
        with asyncio.run(connect_to(["127.0.0.2", "::1", "127.0.0.1"])) as upstream:
            assert upstream.getpeername() == ("127.0.0.1", platform.port)

    def test_the_next_address_is_tried_when_one_is_silent(
        self, limit: Limit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def connect(address: str) -> socket.socket:
            if address == PUBLIC:
                await asyncio.sleep(30)
            return socket.socket()

        async def in_time() -> socket.socket:
            async with asyncio.timeout(2):
                return await connect_to([PUBLIC, "127.0.0.1"])

        limit(CONNECT_SECONDS=2)
        monkeypatch.setattr(game_api_proxy, "connect_to_address", connect)
        asyncio.run(in_time()).close()

    def test_a_failed_accept_does_not_end_the_proxy(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        accept, failures = socket.socket.accept, iter([OSError(errno.EMFILE, "Too many open files")])

        def fail_once(listener: socket.socket) -> Any:
            for failure in failures:
                raise failure
            return accept(listener)

        monkeypatch.setattr(socket.socket, "accept", fail_once)
        client.tunnel().close()
        assert "accept failed: Too many open files" in caplog.text

    def test_without_an_address_there_is_no_connection(self) -> None:
        with pytest.raises(OSError):  # noqa: PT011 - any of them
            asyncio.run(connect_to([]))

    def test_an_error_of_ours_ends_one_connection_only(
        self, platform: Platform, caplog: pytest.LogCaptureFixture
    ) -> None:
        broken = iter([None])
        with proxying(platform, resolve=lambda _: next(broken, found(PUBLIC))) as client:
            assert client.ask(CONNECT) == b""
            client.tunnel().close()
        assert "job 7: game API proxy failed" in caplog.text


class TestLimits:
    def test_the_limits_are_those_documented(self) -> None:
        assert (game_api_proxy.MAX_TUNNELS, game_api_proxy.MAX_CONNECTIONS) == (8, 200)
        assert (game_api_proxy.MAX_DOWNLOAD_BYTES, game_api_proxy.MAX_UPLOAD_BYTES) == (64 << 20, 8 << 20)
        assert (game_api_proxy.CONNECT_SECONDS, game_api_proxy.IDLE_SECONDS) == (10, 30)

    def test_of_1000_connects_those_over_the_limit_are_refused(self, client: Client) -> None:
        statuses = [client.connect_to("example.com:443") for _ in range(1000)]
        assert statuses == [403] * 200 + [429] * 800

    def test_1000_tunnels_are_refused_past_the_limit(self, client: Client, platform: Platform) -> None:
        for _ in range(200):
            with client.tunnel() as tunnel:
                tunnel.shutdown(socket.SHUT_WR)
                assert read_to_end(tunnel) == b""
        assert {client.connect_to("us.battle.net:443") for _ in range(800)} == {429}
        assert len(platform.connected) == 200

    def test_a_flood_closes_the_listener(self, platform: Platform, limit: Limit) -> None:
        limit(MAX_ACCEPTED=20)
        with proxying(platform) as client:
            assert [status(client.ask(b"\n")) for _ in range(20)] == [400] * 20
            assert eventually(client.is_refused)

    def test_a_ninth_tunnel_is_refused_until_one_is_closed(self, client: Client) -> None:
        with ExitStack() as opened:
            tunnels = [opened.enter_context(client.tunnel()) for _ in range(8)]
            assert client.connect_to("us.battle.net:443") == 503
            tunnels[0].shutdown(socket.SHUT_WR)
            assert read_to_end(tunnels[0]) == b""
            assert eventually(client.opens_tunnel)

    def test_100_silent_connections_do_not_stop_the_proxy(self, client: Client, limit: Limit) -> None:
        limit(HEAD_SECONDS=0.3)
        before = descriptors()
        with ExitStack() as opened:
            silent = [opened.enter_context(client.connect()) for _ in range(100)]
            time.sleep(0.1)
            # Ours are 100; the proxy has accepted no more than it may.
            assert descriptors() - before <= 100 + 32
            client.tunnel().close()
            assert {status(read_to_end(connection)) for connection in silent} == {408}

    def test_downloads_are_limited(self, limit: Limit) -> None:
        limit(MAX_DOWNLOAD_BYTES=MEGABYTE)
        with serving(send_for_ever) as platform, proxying(platform) as client:
            with client.tunnel() as tunnel:
                assert MEGABYTE // 2 < len(read_to_end(tunnel)) <= MEGABYTE
            assert client.connect_to("us.battle.net:443") == 429

    def test_uploads_are_limited(self, limit: Limit) -> None:
        limit(MAX_UPLOAD_BYTES=MEGABYTE)
        taken = 0
        at_end = threading.Event()

        def count(connection: socket.socket) -> None:
            nonlocal taken
            with suppress(ConnectionError):
                while data := connection.recv(65536):
                    taken += len(data)
            at_end.set()

        with serving(count) as platform, proxying(platform) as client:
            with client.tunnel() as tunnel, suppress(ConnectionError):
                send_for_ever(tunnel)
                read_to_end(tunnel)
            assert client.connect_to("us.battle.net:443") == 429
            assert at_end.wait(20)
        assert MEGABYTE // 2 < taken <= MEGABYTE

    def test_the_byte_limits_are_those_of_all_tunnels(self, limit: Limit) -> None:
        limit(MAX_DOWNLOAD_BYTES=MEGABYTE)

        def start_when_told(connection: socket.socket) -> None:
            connection.recv(1)
            send_for_ever(connection)

        with serving(start_when_told) as platform, proxying(platform) as client, ExitStack() as opened:
            tunnels = [opened.enter_context(client.tunnel()) for _ in range(4)]
            for tunnel in tunnels:
                tunnel.sendall(b".")
            assert sum(len(read_to_end(tunnel)) for tunnel in tunnels) <= MEGABYTE

    def test_single_bytes_count_as_more(self, client: Client, limit: Limit) -> None:
        limit(MIN_COUNTED_BYTES=MEGABYTE)
        with client.tunnel() as tunnel, suppress(ConnectionError):
            echoed = 0
            for _ in range(20):
                tunnel.sendall(b".")
                echoed += len(tunnel.recv(1))
        # One of the eight megabytes went to the request's head.
        assert echoed == 7


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counts the folder's own too, on both sides


class TestExit:
    def test_nothing_is_left_open(self) -> None:
        with serving(take_all) as platform:
            before, threads = descriptors(), threading.active_count()
            with proxying(platform) as client, ExitStack() as opened:
                tunnels = [opened.enter_context(client.tunnel()) for _ in range(8)]
                silent = [opened.enter_context(client.connect()) for _ in range(50)]
                proxy_thread = next(t for t in threading.enumerate() if t.name == "game-api-proxy")
                opened.pop_all()
            assert not proxy_thread.is_alive()
            started = time.monotonic()
            assert {read_to_end(connection) for connection in tunnels + silent} == {b""}
            assert time.monotonic() - started < 1
            for connection in tunnels + silent:
                connection.close()
            assert eventually(lambda: (descriptors(), threading.active_count()) == (before, threads))

    def test_it_is_immediate_whatever_is_under_way(self, platform: Platform) -> None:
        with ExitStack() as opened:
            with proxying(platform, resolve=lambda _: Future()) as client:
                for request in (CONNECT, CONNECT[:9], b""):
                    opened.enter_context(client.connect()).sendall(request)
                time.sleep(0.1)
                started = time.monotonic()
            assert time.monotonic() - started < 1

    def test_a_lookup_that_ends_later_does_no_harm(
        self, platform: Platform, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answered, threads = threading.Event(), threading.active_count()
        answer_for_host(monkeypatch, lambda: [][: answered.wait(9)])
        with proxying(platform, resolve=game_api_proxy.resolve_host) as client, client.connect() as connection:
            connection.sendall(CONNECT)
            time.sleep(0.1)
        answered.set()
        assert eventually(lambda: threading.active_count() == threads)

    def test_the_port_is_free_again(self, platform: Platform) -> None:
        with proxying(platform) as client:
            pass
        assert client.is_refused()

    def test_a_proxy_that_nobody_used_ends(self, platform: Platform) -> None:
        for _ in range(20):
            with proxying(platform):
                pass


class TestLog:
    def test_refused_destinations_are_logged_a_few_times(
        self, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        for number in range(20):
            client.connect_to(f"evil{number}.example:443")
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert lines == [
            f"job 7: game API proxy: 403 evil{number}.example:443 is not allowed." for number in range(5)
        ]

    def test_a_name_is_cut_and_cannot_forge_a_line(self, client: Client, caplog: pytest.LogCaptureFixture) -> None:
        client.connect_to("a" * 5000 + ":443")
        client.connect_to("evil\rjob 8: fine:443")
        client.connect_to("evil\x1b[31m:443")
        lines = [record.getMessage() for record in caplog.records]
        assert lines[0] == f"job 7: game API proxy: 403 {'a' * 100}:443 is not allowed."
        assert not any("evil" in line for line in lines)

    def test_nothing_that_a_tunnel_carries_is_logged(
        self, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        head = CONNECT[:-2] + b"Proxy-Authorization: Basic c2VjcmV0\r\n\r\n"
        with client.tunnel(head + b"c2VjcmV0") as tunnel:
            assert read(tunnel, 8) == b"c2VjcmV0"
        assert client.ask(CONNECT[:-2] + b"c2VjcmV0\r\n\r\n")
        assert "c2VjcmV0" not in caplog.text


class TestSetting:
    @pytest.mark.parametrize(
        "entry",
        [
            "10.0.0.1",
            PUBLIC,
            "2130706433",
            "0x7f.1",
            "::1",
            "[::1]",
            "us.battle.net:443",
            "https://us.battle.net",
            "*.battle.net",
            ".battle.net",
            "us.battle.net.",
            " us.battle.net",
            "us.battle.net/x",
            "user@us.battle.net",
            "localhost",
            "battle",
            "db.internal",
            "printer.local",
            "b\u0430ttle.net",
        ],
    )
    def test_an_entry_that_is_no_public_name_is_refused(self, entry: str) -> None:
        with pytest.raises(ImproperlyConfigured, match="not a public host name") as refused:
            require_public_names([HOST, entry])
        assert repr(entry) in str(refused.value)

    def test_the_service_does_not_start_with_a_bad_entry(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", "import django; django.setup()"],
            cwd=settings.BASE_DIR,
            env=os.environ | {"GAME_API_HOSTS": "us.battle.net,10.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert "GAME_API_HOSTS contains '10.0.0.1', which is not a public host name." in done.stderr

    def test_names_in_capitals_are_accepted(self) -> None:
        require_public_names(["US.Battle.NET"])
        listener = socket.create_server(("127.0.0.1", 0))
        with listener, GameApiProxy(listener, hosts=["US.Battle.NET"], job_id=7) as proxy:
            assert proxy.allowed_host("us.battle.net:443") == HOST

    def test_the_listed_default_is_the_real_one(self) -> None:
        listed = (settings.BASE_DIR / ".env.example").read_text()
        assert f"\n#GAME_API_HOSTS={','.join(settings.GAME_API_HOSTS)}\n" in listed
