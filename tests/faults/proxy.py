"""A proxy that can freeze or delay the traffic of a server."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Address = tuple[str, int] | str


class Proxy:
    """Forwards connections to a server. While `flows` is not set, it keeps them open and forwards nothing."""

    def __init__(self, target: Address, listener: socket.socket) -> None:
        self.target, self.listener = target, listener
        self.flows = threading.Event()
        self.flows.set()
        self.delay_seconds = 0.0
        self.sockets: list[socket.socket] = []
        self.threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def serve(self) -> None:
        """Accept connections until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = connect(self.target)
                self.sockets += client, server
                for pair in ((client, server), (server, client)):
                    self.start(self.pump, *pair)

    def start(self, step: Callable[..., None], *arguments: socket.socket) -> None:
        """Run a step in a thread."""
        self.threads.append(threading.Thread(target=step, args=arguments, daemon=True))
        self.threads[-1].start()

    def stop(self) -> None:
        """Close all connections."""
        self.flows.set()
        for each in (self.listener, *self.sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for each in self.sockets:
            each.close()

    def pump(self, source: socket.socket, target: socket.socket) -> None:
        """Forward one direction of a connection."""
        with suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(self.delay_seconds)
                self.flows.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


def connect(address: Address) -> socket.socket:
    """Connect to a TCP address or to the path of a Unix socket."""
    if isinstance(address, tuple):
        return socket.create_connection(address)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    return connection


def listen(address: Address) -> socket.socket:
    """Listen on a TCP address or on the path of a Unix socket."""
    if isinstance(address, tuple):
        return socket.create_server(address)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(100)
    return listener


@contextmanager
def proxy(target: Address, address: Address) -> Iterator[Proxy]:
    """Run a proxy in threads of this process."""
    with listen(address) as listener:
        running = Proxy(target, listener)
        running.start(running.serve)
        try:
            yield running
        finally:
            running.stop()
