"""A fake game API, and clients of the proxy to it, over real sockets."""

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest
from django.conf import settings

from jobs.execution.game_api_proxy import GameApiProxy

HOST = "us.battle.net"
# Any public addresses: nothing in these tests connects to them.
PUBLIC, PUBLIC_V6 = "93.184.215.14", "2606:2800:21f::1"
CONNECT = f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n".encode()
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
MEGABYTE = 1 << 20


def resolved(*addresses: str) -> Future[list[str]]:
    """Return the completed result of a resolver."""
    result: Future[list[str]] = Future()
    result.set_result(list(addresses))
    return result


class FakeGameApi:
    """A local server in place of the game API, and a resolver for its host names."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.addresses: tuple[str, ...] = (PUBLIC,)
        self.lookups: list[str] = []
        self.connected: list[list[str]] = []

    def resolve(self, host: str) -> Future[list[str]]:
        self.lookups.append(host)
        return resolved(*self.addresses)

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
        """Ignore connections that a test aborted."""


@contextmanager
def serving(behave: Callable[[socket.socket], object]) -> Iterator[FakeGameApi]:
    """Run a fake game API that passes each connection to a function."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(30)
            behave(self.request)

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield FakeGameApi(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def echo(connection: socket.socket) -> None:
    """Send back every byte until the end of the stream."""
    while data := connection.recv(65536):
        connection.sendall(data)


def send_forever(connection: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection.sendall(bytes(65536))


def discard_all(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


class ProxyClient:
    """A simulator's view of the proxy: connect, and send arbitrary bytes."""

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
        """Return whether the port is closed."""
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == errno.ECONNREFUSED

    def opens_tunnel(self) -> bool:
        """Return whether the proxy opens another tunnel."""
        with self.connect() as connection:
            connection.sendall(CONNECT)
            return read(connection, len(ESTABLISHED)) == ESTABLISHED

    def send(self, request: bytes) -> bytes:
        """Send a request and return the response up to the end of the connection."""
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
        """Send a CONNECT request and return the response's status."""
        return status(self.send(f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode("latin-1")))


def read(connection: socket.socket, count: int) -> bytes:
    """Read `count` bytes, or all up to the end."""
    data = b""
    while len(data) < count and (more := connection.recv(count - len(data))):
        data += more
    return data


def read_to_end(connection: socket.socket) -> bytes:
    """Read until the proxy closes or resets the connection."""
    data = bytearray()
    with suppress(ConnectionError):
        while more := connection.recv(65536):
            data += more
    return bytes(data)


def status(response: bytes) -> int:
    """Return the status of a complete HTTP response that closes the connection."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert f"\r\nContent-Length: {len(body)}\r\n".encode() in head
    assert head.endswith(b"\r\nConnection: close")
    return int(head.split(b" ")[1])


@contextmanager
def proxying(game_api: FakeGameApi, **options: Any) -> Iterator[ProxyClient]:
    """Run a proxy within the block."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    arguments: dict[str, Any] = {"resolve": game_api.resolve, "connect": game_api.connect} | options
    port = listener.getsockname()[1]
    with GameApiProxy(listener, hosts=settings.GAME_API_HOSTS, job_id=7, **arguments):
        yield ProxyClient(port)


SetLimits = Callable[..., None]


def replace_system_resolver(monkeypatch: pytest.MonkeyPatch, resolver: Callable[[], list[Any]]) -> None:
    """Replace the system resolver's result for the allowed host only."""
    real = socket.getaddrinfo

    def look_up(host: Any, *args: Any, **options: Any) -> list[Any]:
        return resolver() if host == HOST else real(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counts the folder's own too, on both sides
