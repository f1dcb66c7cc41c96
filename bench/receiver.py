"""Webhook receiver for benchmarks: `python -m bench.receiver CERTIFICATE` prints its port and runs.

Requests to `/hang` get no response; all others get one at once.
"""

import asyncio
import ssl
import sys

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read one request and respond."""
    head = await reader.readuntil(b"\r\n\r\n")
    if head.startswith(b"POST /hang"):
        # Until the sender closes the connection.
        await reader.read()
    else:
        writer.write(RESPONSE)
        await writer.drain()
    writer.close()


async def main(certificate: str) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    server = await asyncio.start_server(respond, "127.0.0.1", 0, ssl=tls, backlog=512)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
