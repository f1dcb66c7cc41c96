"""Connections of the web server, which receive a request completely before a thread handles it.

A client that sends slowly therefore costs a file descriptor and little memory, but no thread. gunicorn's own parser
reads the head of each request, which decides where the body ends.
"""

import re
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import SpooledTemporaryFile
from typing import Any

from gunicorn.http.body import ChunkedReader
from gunicorn.http.errors import ChunkMissingTerminator, InvalidChunkSize, LimitRequestHeaders, ParseException
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader
from gunicorn.workers.gthread import TConn

from simservice.body_limit import MAX_BODY_BYTES
from simservice.web.waiting import Wait

# Time limits from the first byte. A new connection that sends nothing is closed after HEAD_SECONDS.
HEAD_SECONDS = 10.0
REQUEST_SECONDS = 30.0
# How long a client can take to close a connection after its last response.
LINGER_SECONDS = 2.0

HEAD_BYTES = 64 << 10
# A larger body is stored in a temporary file.
IN_MEMORY_BYTES = 64 << 10
RECEIVE_BYTES = 64 << 10

# Limits on the framing of a chunked body, because each chunk costs CPU time: 0.2 s at this limit.
CHUNK_LINE_BYTES = 8 << 10
FRAMING_BYTES = 384 << 10

LINE_END, HEAD_END = b"\r\n", b"\r\n\r\n"
BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t -~\x80-\xff]*)?")


class ShortBody(ParseException):
    """The client closed the connection before the end of the body."""

    def __init__(self, missing: int) -> None:
        super().__init__(f"the body is {missing} bytes short")


class NotStored(Exception):
    """A body could not be written to a temporary file, or read from it. Not an OSError, which ends a connection."""


class SizedBody:
    """A body with a Content-Length. Reads at most one byte more than the limit."""

    def __init__(self, length: int) -> None:
        self.file = SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115 - closed with its request
        self.size = 0
        self.expected_size = min(length, MAX_BODY_BYTES + 1)
        # Whether the client sends more than is read.
        self.is_truncated = length > self.expected_size

    def take(self, received: bytearray) -> bool:
        """Move this body's part of the received bytes to the file. Return whether the body is complete."""
        self.store(received, self.expected_size - self.size)
        return self.size == self.expected_size

    def store(self, received: bytearray, limit: int) -> int:
        """Move up to `limit` bytes to the file. Return how many. Raises NotStored."""
        part = received[:limit]
        with _as_not_stored():
            self.file.write(part)
        self.size += len(part)
        del received[:limit]
        return len(part)

    def end(self) -> None:
        """Reject a body that is shorter than its length, because half a profile is another profile."""
        raise ShortBody(self.expected_size - self.size)


class ChunkedBody(SizedBody):
    """A chunked body. Only its content is stored. Raises gunicorn's errors for malformed input."""

    def __init__(self, request: Request) -> None:
        super().__init__(MAX_BODY_BYTES + 1)
        self.request = request
        self.framing = 0
        self.left = 0
        self.in_chunk = False
        self.is_ending = False
        self.trailers: list[bytes] = []

    def take(self, received: bytearray) -> bool:
        """Move received content to the file. Return whether the body is complete."""
        while self.size < self.expected_size:
            if self.left:
                self.left -= self.store(received, min(self.left, self.expected_size - self.size))
            elif (line := self.next_line(received)) is None:
                return False
            elif self.is_last(line):
                return True
            if not received:
                return False
        self.is_truncated = True
        return True

    def next_line(self, received: bytearray) -> bytes | None:
        """Remove a line from the received bytes and return it, or None if it is incomplete."""
        end = received.find(LINE_END)
        if max(end, len(received) if end < 0 else 0) > CHUNK_LINE_BYTES:
            raise InvalidChunkSize(b"the line is too long")
        if end < 0:
            return None
        line = bytes(received[:end])
        del received[: end + len(LINE_END)]
        self.framing += end + len(LINE_END)
        if self.framing > FRAMING_BYTES:
            raise LimitRequestHeaders("too many chunks")
        return line

    def is_last(self, line: bytes) -> bool:
        """Process a line of the framing. Return whether it ends the body."""
        if self.is_ending:
            return self.is_last_trailer(line)
        if self.in_chunk:
            if line:
                raise ChunkMissingTerminator(line)
            self.in_chunk = False
            return False
        match = CHUNK_LINE.fullmatch(line)
        if match is None:
            raise InvalidChunkSize(line)
        self.left = int(match[1], 16)
        self.in_chunk = self.left > 0
        self.is_ending = not self.in_chunk
        return False

    def is_last_trailer(self, line: bytes) -> bool:
        """Process a trailer. Return whether it is the empty line that ends the body."""
        if line:
            self.trailers.append(line)
        elif self.trailers:
            self.request.parse_headers(LINE_END.join(self.trailers), from_trailer=True)
        return not line

    def end(self) -> None:
        """Reject a body without a last chunk."""
        raise ChunkMissingTerminator(b"")


class Connection(TConn):
    """A client's connection. For gunicorn it is also the parser that yields complete requests."""

    def __init__(self, cfg: Any, sock: Any, client: Any, server: Any) -> None:
        super().__init__(cfg, sock, client, server)
        self.parser = self
        self.initialized = self.data_ready = True
        self.received = bytearray()
        self.served = 0
        self.is_ended = self.expects_continue = False
        # When the current request was complete, in monotonic time
        self.ready_at = 0.0
        # What the current request waits for, and what it has waited for.
        self.wanted: Wait | None = None
        self.waited: Wait | None = None
        self.await_request()

    def await_request(self) -> None:
        """Begin to wait for the first byte of the next request."""
        self.request: Request | None = None
        self.body = SizedBody(0)
        self.error: Exception | None = None
        self.searched = 0
        self.wanted = self.waited = None
        self.since = time.monotonic()

    def next_is_ready(self) -> bool:
        """Begin the next request with the remaining bytes. Return like `receive`."""
        if self.is_ended:
            return False
        self.await_request()
        return bool(self.received) and self.advance()

    def fileno(self) -> int:
        return int(self.sock.fileno())

    @property
    def is_silent(self) -> bool:
        """Whether no byte of the next request has arrived."""
        return self.request is None and not self.received

    @property
    def spooled(self) -> int:
        """The number of bytes in the temporary file."""
        return self.body.size if self.body.size > IN_MEMORY_BYTES else 0

    def deadline(self, *, is_stopping: bool) -> float:
        """Return the monotonic time at which the connection is closed unless its request is complete."""
        if self.is_ended:
            return self.since + LINGER_SECONDS
        if self.is_silent and (self.served or is_stopping):
            return float(self.since + self.cfg.keepalive)
        return self.since + (HEAD_SECONDS if self.request is None else REQUEST_SECONDS)

    def receive(self) -> bool:
        """Read from the socket. Return whether a thread must handle a request or an error.

        Raises BlockingIOError if there is nothing to read, another OSError if the connection has ended.
        """
        data = self.sock.recv(RECEIVE_BYTES)
        if not data and (self.is_ended or self.is_silent):
            raise ConnectionAbortedError
        if self.is_ended:
            return False
        if self.is_silent:
            self.since = time.monotonic()
        self.received += data
        return self.advance(is_over=not data)

    def advance(self, *, is_over: bool = False) -> bool:
        """Process the received bytes, which are the last ones if `is_over`. Return like `receive`."""
        try:
            return self.has_request(is_over=is_over)
        except Exception as error:
            self.error = error
            return True

    def has_request(self, *, is_over: bool) -> bool:
        """Return whether a request is complete. Raises gunicorn's errors for malformed requests."""
        if self.request is None and not self.has_head(is_over=is_over):
            return False
        if self.body.take(self.received):
            return True
        if is_over:
            self.body.end()
        self.send_continue()
        return False

    def has_head(self, *, is_over: bool) -> bool:
        """Parse the head if it is complete or already known to be invalid. Return whether there is one."""
        # Search only new bytes, so that a long head that arrives byte by byte does not block the main loop.
        end = self.received.find(HEAD_END, max(0, self.searched - len(HEAD_END) + 1))
        if end < 0 and len(self.received) > HEAD_BYTES:
            raise LimitRequestHeaders("the head is too long")
        if end < 0 and not is_over and not BARE_LINE_FEED.search(self.received, self.searched):
            self.searched = len(self.received)
            return False
        size = end + len(HEAD_END) if end >= 0 else len(self.received)
        head = bytes(self.received[:size])
        del self.received[:size]
        self.served += 1
        self.request = Request(self.cfg, IterUnreader([head]), self.client, self.served)
        reader = self.request.body.reader
        self.body = ChunkedBody(self.request) if isinstance(reader, ChunkedReader) else SizedBody(reader.length)
        # gunicorn would send `100 Continue` only after it has received the body.
        self.expects_continue = self.request._expected_100_continue  # noqa: SLF001
        self.request._expected_100_continue = False  # noqa: SLF001
        return True

    def send_continue(self) -> None:
        """Send `100 Continue` to a client that waits for it before it sends the body."""
        if self.expects_continue:
            self.expects_continue = False
            with suppress(OSError):
                self.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def __next__(self) -> Request:
        """Return the complete request. Raises its error if it has one."""
        if self.error or self.request is None:
            raise self.error or StopIteration
        with _as_not_stored():
            self.body.file.seek(0)
        self.request.body = self.body.file
        if self.body.is_truncated:
            self.request.force_close()
        return self.request

    def finish_body(self, deadline: float) -> bool:  # noqa: ARG002 - nothing is left to wait for
        """Return True: the body was received completely, so the connection can be reused."""
        return True

    def discard_body(self) -> None:
        """Remove the temporary file."""
        # Closing flushes the rest, which fails if the disk is full.
        with suppress(OSError):
            self.body.file.close()
        self.body = SizedBody(0)

    def end(self) -> None:
        """Stop sending and wait for the client to close the connection. Raises OSError if it has ended."""
        self.is_ended = True
        self.since = time.monotonic()
        self.received.clear()
        self.sock.shutdown(socket.SHUT_WR)


@contextmanager
def _as_not_stored() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotStored(f"{tempfile.gettempdir()}: {error}") from error
