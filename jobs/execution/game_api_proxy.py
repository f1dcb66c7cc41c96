"""The HTTP CONNECT proxy through which a simulator reaches the game API's hosts, and nothing else.

The simulator connects inside its own network namespace; the proxy connects onward in the worker's. Nothing that the
simulator sends is trusted: a name is checked against a list, resolved here, and connected to only if every address
is public by the webhooks' rules.
"""

import asyncio
import logging
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, suppress
from functools import partial
from http import HTTPStatus
from typing import Self

from simservice.network import addresses
from simservice.network.addresses import HTTPS_PORT, MAX_ADDRESSES, ask_resolver

REQUEST_LINE = re.compile(r"(?P<method>[!-~]+) (?P<target>[!-~]+) HTTP/1\.[01]")
HEADER_LINE = re.compile(r"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t -~\x80-\xff]*")
AUTHORITY = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
# A CONNECT request has no body (RFC 9110, 9.3.6); these headers would announce one.
BODY_HEADERS = {"content-length", "transfer-encoding"}


class Rejected(Exception):
    """The proxy rejects a request; the message is the response's body."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def parse_target(head: bytes) -> str:
    """Return the target of a CONNECT request. Raises Rejected."""
    request_line, *header_lines = head.decode("latin-1").split("\r\n")
    request = REQUEST_LINE.fullmatch(request_line)
    headers = [HEADER_LINE.fullmatch(line) for line in header_lines]
    if request is None or None in headers:
        raise Rejected(HTTPStatus.BAD_REQUEST, "The request is malformed.")
    if request["method"] != "CONNECT":
        raise Rejected(HTTPStatus.METHOD_NOT_ALLOWED, "Only CONNECT is supported.")
    if any(header and header["name"].lower() in BODY_HEADERS for header in headers):
        raise Rejected(HTTPStatus.BAD_REQUEST, "A CONNECT request must not have a body.")
    return request["target"]


def response(rejected: Rejected) -> bytes:
    """Return the HTTP response to a rejected request."""
    body = f"{rejected}\n".encode("ascii")
    lines = [
        f"HTTP/1.1 {rejected.status.value} {rejected.status.phrase}",
        "Content-Type: text/plain",
        f"Content-Length: {len(body)}",
        *(["Allow: CONNECT"] if rejected.status == HTTPStatus.METHOD_NOT_ALLOWED else []),
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def parse_authority(target: str) -> tuple[str, str]:
    """Return the host and port of a CONNECT target. Raises Rejected."""
    authority = AUTHORITY.fullmatch(target)
    if authority is None:
        raise Rejected(HTTPStatus.BAD_REQUEST, "The target is not of the form host:port.")
    return authority["host"], authority["port"]


logger = logging.getLogger(__name__)

# SimulationCraft reuses one curl handle, which keeps up to 5 connections open.
MAX_TUNNELS = 8
# With the tunnels, these are all the descriptors that a run can hold; further connections wait in the kernel.
MAX_OPEN_CONNECTIONS = 32
# One connection carries many requests, so even a guild import needs few.
MAX_CONNECTIONS = 200
# After this many, including rejected ones, the listener closes: a flood must not cost the worker CPU time.
MAX_ACCEPTED = 2_000
# Each response is one JSON document; this leaves room for a large guild.
MAX_DOWNLOAD_BYTES = 64 << 20
# Requests have almost no bodies.
MAX_UPLOAD_BYTES = 8 << 20
# A read counts as at least this many bytes, so that single bytes reach the limit before they cost much CPU time.
MIN_COUNTED_BYTES = 256
# curl's head for CONNECT has under 1 KB.
MAX_HEAD_BYTES = 8 << 10
# The simulator is on the same machine and sends the head in one piece.
HEAD_SECONDS = 5.0
# For name lookup and connection together; SimulationCraft gives up on a request after 15 s.
CONNECT_SECONDS = 10.0
# Idle time in both directions: longer than a request takes, short enough to free an abandoned tunnel.
IDLE_SECONDS = 30.0
# Memory per direction of a tunnel: nothing more is read until this much is written.
CHUNK_BYTES = 16 << 10
# Enough to see what a run tried, without letting it flood the log.
MAX_LOG_LINES = 5
LOOKUP_POLL_SECONDS = 0.02
SHOWN_HOST_CHARACTERS = 100

HEAD_END = b"\r\n\r\n"
BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"

Resolve = Callable[[str], Future[list[str]]]
Connect = Callable[[Sequence[str]], Awaitable[socket.socket]]


class ByteBudget:
    """The remaining bytes of a run's tunnels in one direction."""

    def __init__(self, limit: int) -> None:
        self.remaining = limit

    def spend(self, count: int) -> None:
        """Count bytes that were read. Raises Rejected if the limit is exceeded."""
        self.remaining -= max(count, MIN_COUNTED_BYTES)
        self.require()

    def require(self) -> None:
        """Raise Rejected if the limit was exceeded."""
        if self.remaining < 0:
            raise Rejected(HTTPStatus.TOO_MANY_REQUESTS, "The byte limit of this run was reached.")


def resolve_host(host: str) -> Future[list[str]]:
    """Return a future of the addresses of a host's HTTPS service."""
    return ask_resolver(host, HTTPS_PORT)


async def connect_to(ips: Sequence[str]) -> socket.socket:
    """Connect to the first address that accepts; each gets an equal share of the time.

    Raises OSError, TimeoutError included.
    """
    last = OSError()
    for address in ips:
        try:
            async with asyncio.timeout(CONNECT_SECONDS / len(ips)):
                return await connect_to_address(address)
        except OSError as error:
            last = error
    raise last


async def connect_to_address(address: str) -> socket.socket:
    """Connect to the HTTPS port of an address. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with ExitStack() as opened:
        upstream = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
        upstream.settimeout(0)
        await asyncio.get_running_loop().sock_connect(upstream, (address, HTTPS_PORT))
        opened.pop_all()
        return upstream


class GameApiProxy:
    """Let one simulator reach the game platform's hosts, and nothing else.

    One thread serves all connections and owns the listener. It ends with the `with` block, and closes tunnels at
    once. Only a lookup that hangs in the system's resolver can outlive it, as a daemon thread without
    descriptors.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        hosts: Collection[str],
        job_id: int,
        resolve: Resolve = resolve_host,
        connect: Connect = connect_to,
    ) -> None:
        self.listener, self.job_id = listener, job_id
        self.hosts = frozenset(host.lower() for host in hosts)
        self.resolve, self.connect = resolve, connect
        self.upload, self.download = ByteBudget(MAX_UPLOAD_BYTES), ByteBudget(MAX_DOWNLOAD_BYTES)
        self.open_connections = asyncio.Semaphore(MAX_OPEN_CONNECTIONS)
        self.tunnels = asyncio.Semaphore(MAX_TUNNELS)
        self.log_lines = 0

    def __enter__(self) -> Self:
        """Start accepting connections."""
        self.listener.settimeout(0)
        self.loop = asyncio.new_event_loop()
        self.serving = self.loop.create_task(self.serve())
        self.thread = threading.Thread(target=self.run, name="game-api-proxy", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the listener and all connections."""
        # The loop is already closed if an internal error ended the thread.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.serving.cancel)
        self.thread.join()

    def run(self) -> None:
        """Run the event loop until `serving` is cancelled."""
        with closing(self.loop), self.listener, suppress(asyncio.CancelledError):
            self.loop.run_until_complete(self.serving)

    async def serve(self) -> None:
        """Accept connections, each handled by a task, until cancelled."""
        async with asyncio.TaskGroup() as handling:
            for number in range(1, MAX_ACCEPTED + 1):
                await self.open_connections.acquire()
                peer = await self.accept()
                task = handling.create_task(self.handle(peer, number=number))
                # A task that is cancelled before its first step does not run its own cleanup.
                task.add_done_callback(partial(self.close, peer))
            self.listener.close()
            self.log(f"the listener is closed after {MAX_ACCEPTED} connections")
            await asyncio.get_running_loop().create_future()

    async def accept(self) -> socket.socket:
        """Return the next connection. Unlike the loop's own method, it loses none when it is cancelled."""
        while True:
            try:
                peer, _ = self.listener.accept()
            except BlockingIOError:
                await self.wait_for_connection()
            except OSError as error:
                # Out of descriptors, or the connection is already gone.
                self.log(f"accept failed: {error.strerror}")
                await asyncio.sleep(1)
            else:
                peer.settimeout(0)
                return peer

    async def wait_for_connection(self) -> None:
        """Wait until the listener has a connection."""
        readable = asyncio.Event()
        self.loop.add_reader(self.listener, readable.set)
        try:
            await readable.wait()
        finally:
            self.loop.remove_reader(self.listener)

    def close(self, peer: socket.socket, _: "asyncio.Task[None]") -> None:
        """Close a connection whose task has ended."""
        peer.close()
        self.open_connections.release()

    async def handle(self, peer: socket.socket, *, number: int) -> None:
        """Handle one connection, the run's `number`th."""
        try:
            host, early = await self.read_request(peer, number=number)
            if self.tunnels.locked():
                raise Rejected(HTTPStatus.SERVICE_UNAVAILABLE, f"At most {MAX_TUNNELS} tunnels can be open.")
            async with self.tunnels:
                with await self.reach(host) as upstream:
                    await self.tunnel(peer, upstream, early=early)
        except Rejected as rejected:
            self.log(f"{rejected.status.value} {rejected}")
            # It fits into the socket's buffer, and both ends are on one kernel, so it arrives despite the close.
            with suppress(OSError):
                peer.send(response(rejected))
        except OSError:
            # The simulator has closed the connection.
            return
        except Exception:
            logger.exception("job %s: game API proxy failed", self.job_id)

    async def read_request(self, peer: socket.socket, *, number: int) -> tuple[str, bytes]:
        """Return the requested host and the bytes sent after the request. Raises Rejected or OSError."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head, early = await self.read_head(peer)
        except TimeoutError:
            raise Rejected(HTTPStatus.REQUEST_TIMEOUT, f"No request within {HEAD_SECONDS:g} seconds.") from None
        if number > MAX_CONNECTIONS:
            message = f"The limit of {MAX_CONNECTIONS} connections per run is reached."
            raise Rejected(HTTPStatus.TOO_MANY_REQUESTS, message)
        self.download.require()
        return self.allowed_host(parse_target(head)), early

    async def read_head(self, peer: socket.socket) -> tuple[bytes, bytes]:
        """Return a request's head without its empty line, and the bytes sent after it."""
        received = bytearray()
        while (end := received.find(HEAD_END)) < 0 and len(received) <= MAX_HEAD_BYTES:
            if BARE_LINE_FEED.search(received):
                raise Rejected(HTTPStatus.BAD_REQUEST, "Lines must end with CR LF.")
            data = await self.receive(peer, self.upload)
            if not data:
                raise Rejected(HTTPStatus.BAD_REQUEST, "The request is incomplete.")
            received += data
        if not 0 <= end <= MAX_HEAD_BYTES:
            message = f"The request's head is larger than {MAX_HEAD_BYTES} bytes."
            raise Rejected(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)
        return bytes(received[:end]), bytes(received[end + len(HEAD_END) :])

    def allowed_host(self, target: str) -> str:
        """Return the host of a CONNECT target. Raises Rejected."""
        host, port = parse_authority(target)
        if host.lower() not in self.hosts or port != str(HTTPS_PORT):
            raise Rejected(HTTPStatus.FORBIDDEN, f"{host[:SHOWN_HOST_CHARACTERS]}:{port} is not allowed.")
        return host.lower()

    async def reach(self, host: str) -> socket.socket:
        """Connect to a host. Raises Rejected."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self.connect(await self.public_addresses(host))
        except TimeoutError:
            message = f"{host} did not answer within {CONNECT_SECONDS:g} seconds."
            raise Rejected(HTTPStatus.GATEWAY_TIMEOUT, message) from None
        except OSError:
            raise Rejected(HTTPStatus.BAD_GATEWAY, f"{host} cannot be reached.") from None

    async def public_addresses(self, host: str) -> list[str]:
        """Return a host's first addresses if all of them are public. Raises Rejected or OSError."""
        lookup = self.resolve(host)
        # Polled, because a result that arrives after the loop is closed must not touch the loop.
        while not lookup.done():
            await asyncio.sleep(LOOKUP_POLL_SECONDS)
        ips = lookup.result()
        try:
            addresses.require_public(ips)
        except addresses.AddressRefused:
            raise Rejected(HTTPStatus.FORBIDDEN, f"{host} has an address that is not public.") from None
        return ips[:MAX_ADDRESSES]

    async def tunnel(self, peer: socket.socket, upstream: socket.socket, *, early: bytes) -> None:
        """Carry bytes both ways until both ends close, one fails, a limit is reached or the tunnel is idle."""
        for end in (peer, upstream):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.send(ESTABLISHED)
        try:
            async with asyncio.timeout(IDLE_SECONDS) as idle, asyncio.TaskGroup() as directions:
                directions.create_task(self.carry(peer, upstream, self.upload, idle, early=early))
                directions.create_task(self.carry(upstream, peer, self.download, idle))
        except* (OSError, Rejected) as ended:
            logger.debug("job %s: a game API tunnel ended: %s", self.job_id, ended.exceptions)

    async def carry(
        self,
        source: socket.socket,
        sink: socket.socket,
        budget: ByteBudget,
        idle: asyncio.Timeout,
        *,
        early: bytes = b"",
    ) -> None:
        """Carry bytes one way until the source ends, then pass on the end. Raises OSError or Rejected."""
        data = early or await self.receive(source, budget)
        while data:
            await self.loop.sock_sendall(sink, data)
            if not idle.expired():
                idle.reschedule(self.loop.time() + IDLE_SECONDS)
            # Two fast ends never make a read or write wait, so give other tasks their turn here.
            await asyncio.sleep(0)
            data = await self.receive(source, budget)
        sink.shutdown(socket.SHUT_WR)

    async def receive(self, source: socket.socket, budget: ByteBudget) -> bytes:
        """Read once; no bytes mean the end. Raises OSError or Rejected."""
        data = await self.loop.sock_recv(source, CHUNK_BYTES)
        if data:
            budget.spend(len(data))
        return data

    def log(self, message: str) -> None:
        """Log a warning, up to the limit for each run."""
        self.log_lines += 1
        if self.log_lines <= MAX_LOG_LINES:
            logger.warning("job %s: game API proxy: %s", self.job_id, message)
