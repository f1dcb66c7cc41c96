"""A server that speaks only the beginning of a protocol, and TLS with a chosen certificate."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.webhooks.receivers import Authority

# What is said before TLS begins
Negotiation = Callable[[socket.socket], object]


def directly(_: socket.socket) -> None:
    """Begin with TLS, as Redis, HTTPS and SMTPS do."""


def after_ssl_request(connection: socket.socket) -> None:
    """Accept TLS as PostgreSQL does."""
    connection.recv(8)
    connection.sendall(b"S")


def after_starttls(connection: socket.socket) -> None:
    """Accept TLS as mail servers do."""
    for answer in (b"220 mail\r\n", b"250-mail\r\n250 STARTTLS\r\n", b"220 go ahead\r\n"):
        connection.sendall(answer)
        if not answer.startswith(b"220 go"):
            connection.recv(1000)


@contextmanager
def tls_server(authority: Authority, negotiate: Negotiation = directly) -> Iterator[int]:
    """Run a server during the block, and yield its port. It closes each connection after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server_file)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=[listener, context, negotiate])
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _serve(listener: socket.socket, context: ssl.SSLContext, negotiate: Negotiation) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with suppress(OSError), connection:
                connection.settimeout(10)
                negotiate(connection)
                context.wrap_socket(connection, server_side=True).close()
