"""The worker of the web server: gunicorn's threaded worker with three changes.

A request occupies a thread only after it has been received completely. Until then, its connection waits in the main
loop like an idle one.

A request with a malformed line, headers or framing never reaches Django, because gunicorn rejects it. The response
has the error envelope on every path (`docs/reference/errors.md`).

A long-polling request gives its thread back (`simservice/web/waiting.py`).
"""

import errno
import json
import resource
import selectors
import threading
import time
from collections.abc import Hashable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, cast

from gunicorn.http.errors import LimitRequestHeaders, LimitRequestLine, ParseException
from gunicorn.util import write_nonblock
from gunicorn.workers.gthread import ThreadWorker

import simservice.settings  # noqa: F401 - wrong settings end gunicorn's main process; it would restart workers forever
from simservice.api.errors import ApiError, DiskFull, InternalError, RequestTooLarge, ValidationFailed, envelope
from simservice.api.middleware import new_request_id
from simservice.telemetry.metrics import REJECTED, THREAD_WAIT_SECONDS, WANTED
from simservice.web.connections import RECEIVE_BYTES, Connection, NotStored
from simservice.web.waiting import RESERVE, WAITED, Places, Wait, WaitPoller

# Limit on bodies in temporary files, for all connections together.
MAX_SPOOLED_BYTES = 256 << 20
# A request that waits keeps its body, and is not closed to make room for another one.
MAX_PARKED_BYTES = 4 << 10
# File descriptors that are reserved for other uses than connections and their temporary files.
OTHER_DESCRIPTORS = 128
CHECK_SECONDS = 0.25
# How long one write can block because the client does not read, for example 64 KiB of a file.
SEND_SECONDS = 30.0
TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)

HEAD = """\
HTTP/1.1 {status} {reason}\r
Connection: close\r
Content-Type: application/json\r
Content-Length: {length}\r
X-Request-Id: {request_id}\r
{headers}\r
"""
REASONS = {400: "Bad Request", 413: "Content Too Large", 500: "Internal Server Error", 503: "Service Unavailable"}


class LongPoll(Exception):
    """Raised to park a long-polling request: its response is discarded."""


class Worker(ThreadWorker):
    """The worker class that the Procfile names. All methods but `handle*` and `answer` run in the main loop."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Connections without a complete request, oldest first
        self.waiting: dict[Connection, None] = {}
        self.spooled = 0
        self.checked_at = 0.0
        descriptors = _open_files(self.worker_connections * 2 + OTHER_DESCRIPTORS)
        self.max_connections = (descriptors - OTHER_DESCRIPTORS) // 2
        # The others must be able to send requests.
        self.places = Places(self.max_connections * 3 // 4)
        # Connections of long-polling requests, by their wait
        self.parked: dict[Wait, Connection] = {}
        self.wait_poller = WaitPoller(lambda wait: self.method_queue.defer(self.resume, wait))
        # The connection that each thread handles
        self.handled = threading.local()

    def accept(self, listener: Any) -> None:
        """Accept a connection; if there are too many, close the one that has waited longest."""
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in TOO_MANY_FILES:
                self.drop_oldest()
            return
        self.nr_conns += 1
        if self.nr_conns >= self.max_connections:
            self.drop_oldest()
        self.wait_for(Connection(self.cfg, client, address, listener.getsockname()))

    def wait_for(self, connection: Connection) -> None:
        """Read a connection in the main loop."""
        connection.sock.setblocking(False)  # noqa: FBT003 - the library's own form
        self.waiting[connection] = None
        self.poller.register(connection, selectors.EVENT_READ, self.receive)

    def enqueue_req(self, conn: Connection) -> None:
        """Pass a complete request to a thread, as soon as one is free."""
        conn.ready_at = time.monotonic()
        super().enqueue_req(conn)

    def stop_waiting(self, connection: Connection) -> None:
        """Take a connection out of the main loop."""
        self.poller.unregister(connection)
        del self.waiting[connection]

    def receive(self, connection: Connection) -> None:
        """Read from a connection. Pass its request to a thread once it is complete."""
        if connection not in self.waiting:
            # Closed after the poller reported it, to make room for another one.
            return
        before = connection.spooled
        try:
            is_ready = connection.receive()
        except BlockingIOError:
            return
        except OSError:
            self.drop(connection)
            return
        self.spooled += connection.spooled - before
        if self.spooled > MAX_SPOOLED_BYTES:
            REJECTED.labels("too_many_bytes").inc()
            self.drop(next(one for one in self.waiting if one.spooled or one is connection))
        if is_ready and connection in self.waiting:
            self.stop_waiting(connection)
            self.enqueue_req(connection)

    def drop_oldest(self) -> None:
        """Close the connection that has waited longest for a complete request, if there is one."""
        if self.waiting:
            REJECTED.labels("too_many_connections").inc()
            self.drop(next(iter(self.waiting)))

    def drop(self, connection: Connection) -> None:
        """Stop reading a connection and close it."""
        self.stop_waiting(connection)
        self.close(connection)

    def close(self, connection: Connection) -> None:
        """Close a connection, with its temporary file."""
        self.discard_body(connection)
        connection.close()
        self.nr_conns -= 1

    def discard_body(self, connection: Connection) -> None:
        """Remove a connection's temporary file."""
        self.spooled -= connection.spooled
        connection.discard_body()

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Wait for events, at most until the next check of the time limits."""
        super().wait_for_and_dispatch_events(CHECK_SECONDS if self.waiting else timeout)

    def murder_pending(self) -> None:
        """Close connections that exceed a time limit."""
        if not self.alive:
            for wait in list(self.parked):
                self.resume(wait)
        now = time.monotonic()
        if now - self.checked_at < CHECK_SECONDS:
            return
        self.checked_at = now
        for connection in list(self.waiting):
            if connection.deadline(is_stopping=not self.alive) < now:
                self.drop(connection)

    def finish_request(self, conn: Connection, fs: "Future[bool]") -> None:
        """Wait for the connection's next request, or for its end."""
        if conn.wanted:
            # With its body, which is read again after the wait: it has at most `MAX_PARKED_BYTES`
            self.park(conn, conn.wanted)
            return
        self.discard_body(conn)
        try:
            if not fs.result():
                conn.end()
        except Exception:
            self.close(conn)
            return
        if conn.next_is_ready():
            self.enqueue_req(conn)
        else:
            self.wait_for(conn)

    def park(self, connection: Connection, wait: Wait) -> None:
        """Wait for a change. Until then, the main loop notices only whether the client leaves."""
        connection.wanted, connection.waited = None, wait
        connection.sock.setblocking(False)  # noqa: FBT003 - the library's own form
        self.parked[wait] = connection
        self.poller.register(connection, selectors.EVENT_READ, self.receive_early)
        self.wait_poller.add(wait)

    def receive_early(self, connection: Connection) -> None:
        """Read from a connection that waits for a change. Close it if the client has left."""
        try:
            received = connection.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        self.poller.unregister(connection)
        connection.received += received
        if not received:
            self.unpark(cast(Wait, connection.waited))
            self.close(connection)

    def unpark(self, wait: Wait) -> Connection | None:
        """End a wait. Return its connection, None if it has ended already."""
        self.wait_poller.forget(wait)
        connection = self.parked.pop(wait, None)
        if connection is not None:
            self.places.release(wait.owner)
            with suppress(KeyError):
                self.poller.unregister(connection)
        return connection

    def resume(self, wait: Wait) -> None:
        """Handle a request again, because its wait is over."""
        connection = self.unpark(wait)
        if connection is not None:
            self.enqueue_req(connection)

    def load_wsgi(self) -> None:
        """Load the application, and put `answer` in front of it."""
        super().load_wsgi()
        self.application: Any = self.wsgi
        self.wsgi: Any = self.answer

    def reserve(self, owner: Hashable) -> bool:
        """Reserve a place for a wait, if the request is small and the owner can have one. Runs in a thread."""
        is_small = self.handled.connection.body.size <= MAX_PARKED_BYTES
        return is_small and self.alive and self.places.reserve(owner)

    def answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Call the application. Raises LongPoll if the request has to wait. Runs in a thread."""
        connection: Connection = self.handled.connection
        environ[RESERVE] = self.reserve
        if connection.waited:
            environ[WAITED] = connection.waited
        response = self.application(environ, start_response)
        wait: Wait | None = environ.get(WANTED)
        if wait is None:
            return response
        response.close()
        connection.wanted = wait
        raise LongPoll

    def handle_request(self, req: Any, conn: Connection) -> bool:
        """Respond to a request. Raises ConnectionResetError if the client does not read the response."""
        conn.sock.settimeout(SEND_SECONDS)
        waited_seconds = time.monotonic() - conn.ready_at
        self.handled.connection = conn
        try:
            stays_open = bool(super().handle_request(req, conn))
            THREAD_WAIT_SECONDS.observe(waited_seconds)
            return stays_open
        except LongPoll:
            return True
        except TimeoutError as error:
            raise ConnectionResetError(errno.ECONNRESET, "the client does not read the response") from error

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:  # noqa: ARG002
        """Respond to a request that failed outside Django, and log it: with a traceback only if it is a bug."""
        request_id = new_request_id()
        error = error_for(exc)
        REJECTED.labels(error.code).inc()
        if error.status == InternalError.status:
            self.log.error("request %s failed outside Django", request_id, exc_info=exc)
        elif error.status == DiskFull.status:
            self.log.error("request %s was not stored in TMPDIR: %s", request_id, exc)
        else:
            # The text of the exception quotes the request, which can contain a secret link.
            self.log.info("request %s rejected: %s", request_id, type(exc).__name__)
        with suppress(OSError):
            write_nonblock(client, _response(error, request_id))


def _open_files(wanted: int) -> int:
    """Raise the limit of open files to `wanted`, if it is lower. Return how many of them are allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else min(soft, wanted)


def error_for(exc: Exception) -> ApiError:
    """Return the API error for an exception that gunicorn raised."""
    if isinstance(exc, LimitRequestLine | LimitRequestHeaders):
        return RequestTooLarge(message="The request's line, headers or chunks are too long or too many.")
    if isinstance(exc, ParseException):
        return ValidationFailed([{"path": "", "message": "The request is not valid HTTP/1.1."}])
    if isinstance(exc, NotStored):
        return DiskFull()
    return InternalError()


def _response(error: ApiError, request_id: str) -> bytes:
    """Return the bytes of an HTTP response with the error envelope, which closes the connection."""
    body = json.dumps(envelope(error, request_id)).encode()
    head = HEAD.format(
        status=error.status,
        reason=REASONS[error.status],
        length=len(body),
        request_id=request_id,
        headers="".join(f"{name}: {value}\r\n" for name, value in error.headers.items()),
    )
    return head.encode() + body
