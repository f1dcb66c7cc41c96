"""Webhook receiver for benchmarks: `python -m bench.receiver CERTIFICATE` prints its port and runs.

Requests to `/hang` get no response; all others get one at once. The connection then stays open, except after
requests to `/close`.
"""

import asyncio
import re
import ssl
import sys
from contextlib import suppress

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


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
