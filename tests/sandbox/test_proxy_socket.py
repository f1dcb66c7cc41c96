"""The proxy's socket: a simulator's only way out of its network namespace."""

import errno
import functools
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Self

import pytest

from sandbox import landlock
from sandbox.process import NotStarted, take_listener
from tests.sandbox.bench import (
    PROXY_PORT,
    Bench,
    refusals,
    unix_servers,
)


class FakeProxy:
    """A fake proxy that responds to one connection and stores the request."""

    def __init__(self, received: list[bytes], listener: socket.socket) -> None:
        self.listener = listener
        self.received = received
        self.thread = threading.Thread(target=self.respond)

    def respond(self) -> None:
        self.listener.settimeout(10)
        with self.listener, self.listener.accept()[0] as connection:
            self.received.append(connection.recv(100))
            connection.sendall(b"here")

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.thread.join()


@contextmanager
def machine_servers() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Listen on the machine's loopback interface with TCP and UDP on the same port."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(tcp.getsockname())
        for server in (tcp, udp):
            server.settimeout(0.2)
        yield tcp, udp


def test_with_game_credentials_there_is_one_exit(bench: Bench) -> None:
    received: list[bytes] = []
    bench.proxy = functools.partial(FakeProxy, received)
    with machine_servers() as (tcp, udp):
        result = bench.run("exits", PROXY_PORT, tcp.getsockname()[1])
        with pytest.raises(TimeoutError):
            tcp.accept()
        with pytest.raises(TimeoutError):
            udp.recv(100)
    assert "game_api_exit" in result.layers
    assert received == [b"CONNECT somewhere"]
    assert bench.printed()[0] == "exit here"
    assert landlock.version() < landlock.TCP_SINCE or bench.printed()[-1].startswith("listen refused")
    assert "tcp WORKED" not in "".join(bench.printed())


def test_with_game_credentials_unix_sockets_stay_denied(bench: Bench) -> None:
    bench.proxy = closing
    with unix_servers(bench.build):
        bench.run("unix_sockets", bench.build / "stream", bench.build / "datagram")
    refusals(bench)


def test_with_game_credentials_there_is_no_resolver(bench: Bench) -> None:
    bench.proxy = closing
    bench.run("reads", "/etc/resolv.conf", "/etc/hosts")
    assert refusals(bench) <= {errno.EACCES, errno.ENOENT}


def open_sockets() -> set[str]:
    """Return the sockets of this process."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder's own descriptor, or one that a thread has closed
            found.add(str(path.readlink()))
    return {link for link in found if link.startswith("socket:")}


def test_the_listener_is_closed_with_the_simulator(bench: Bench) -> None:
    # The first run starts the launcher.
    bench.run("status", 0)
    before = open_sockets()
    bench.proxy = closing
    bench.run("status", 0)
    # A socket of an earlier test may have been closed meanwhile.
    assert open_sockets() <= before


OTHER_DESCRIPTORS: dict[str, Callable[[], list[int]]] = {
    "nothing": list,
    "two": lambda: [socket.create_server(("127.0.0.1", 0)).detach() for _ in range(2)],
    "a file": lambda: [os.open("/dev/null", os.O_RDONLY)],
    "a socket that does not listen": lambda: [socket.socket().detach()],
    "another family": lambda: [socket.create_server(("::1", 0), family=socket.AF_INET6).detach()],
    "datagrams": lambda: [socket.socket(type=socket.SOCK_DGRAM).detach()],
}


@pytest.mark.parametrize("make", OTHER_DESCRIPTORS.values(), ids=OTHER_DESCRIPTORS)
def test_only_a_listening_ipv4_socket_is_accepted(make: Callable[[], list[int]]) -> None:
    descriptors = make()
    with pytest.raises(NotStarted):
        take_listener(descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def test_other_descriptors_are_closed(bench: Bench) -> None:
    with bench.process("status", 0) as process:
        process.supervisor.received = [os.open("/dev/null", os.O_RDONLY) for _ in range(2)]
        remaining = process.supervisor.received[:]
    for descriptor in remaining:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
