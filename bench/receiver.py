"""Webhook receiver for benchmarks: `python -m bench.receiver CERTIFICATE` prints its port and runs.

Requests to `/hang` get no response; all others get one at once. The connection then stays open, except after
requests to `/close`.
"""

import asyncio
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

LENGTH = re.compile(rb"Content-Length: ([0-9]+)")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond to the requests of a connection until one side closes it."""
    head = b""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while not head.startswith(b"POST /close"):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST /hang"):
                # Until the sender closes the connection.
                await reader.read()
                break
            length = LENGTH.search(head)
            await reader.readexactly(int(length[1]) if length else 0)
            last = b"Connection: close\r\n" if head.startswith(b"POST /close") else b""
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + last + b"\r\n")
            await writer.drain()
    writer.close()


async def main(certificate: str) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def running(certificate: Path) -> Iterator[str]:
    """Run the receiver in its own process during the block, with a new certificate; yield its host and port."""
    _make_certificate(certificate)
    command = [sys.executable, "-m", "bench.receiver", str(certificate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        try:
            assert receiver.stdout is not None
            yield f"localhost:{receiver.stdout.readline().strip()}"
        finally:
            receiver.kill()


def _make_certificate(file: Path) -> None:
    """Write a certificate for `localhost`, which is its own authority, and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now, names = datetime.now(UTC), x509.SubjectAlternativeName([x509.DNSName("localhost")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    certificate = builder.add_extension(names, critical=True).sign(key, hashes.SHA256())
    key_format = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(certificate.public_bytes(Encoding.PEM) + key.private_bytes(*key_format))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
