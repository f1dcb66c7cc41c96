"""Connections to PostgreSQL that give up if it does not respond.

If the server is frozen or the network drops packets, connections stay open, and PostgreSQL's own time limits do
not apply. Without a limit here, every thread of a process would wait until the outage ends.
"""

import threading
import time
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, Self, cast

import psycopg
from django.db.backends.postgresql import base

from simservice.outages import Outage

# A watched statement that takes longer makes its thread test whether PostgreSQL accepts connections.
STALL_SECONDS = 0.5
TEST_EVERY_SECONDS = 1.0
CHECK_SECONDS = 0.1
# The shortest time that psycopg allows for a connection
CONNECT_SECONDS = 2


class Limits:
    """The limits of this process: none for commands and migrations."""

    deadline_seconds: float | None = None
    watched = False
    # Monotonic time
    tested_at = float("-inf")


limits = Limits()
_testing = threading.Lock()
outage = Outage(
    "PostgreSQL",
    consequence="requests fail at once",
    recovery="requests are answered",
    probe_seconds=CONNECT_SECONDS,
)


class Connection(psycopg.Connection[Any]):
    """A connection that is closed if PostgreSQL does not respond to a statement."""

    # The arguments of `connect`
    conninfo: str
    options: dict[str, Any]

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connect. Raises OperationalError, immediately during a known outage."""
        if limits.watched:
            if not outage.may_try():
                raise psycopg.OperationalError("PostgreSQL does not respond")
            options |= {"connect_timeout": CONNECT_SECONDS}
        try:
            connected = super().connect(conninfo, **options)
        except psycopg.errors.ConnectionTimeout as error:
            if limits.watched:
                outage.record_failure(error)
            raise
        outage.record_success()
        connected.conninfo, connected.options = conninfo, options
        return connected

    def wait(
        self, gen: Generator[Any, Any, Any], interval: float = CHECK_SECONDS, timeout: float | None = None
    ) -> Any:
        """Wait for a statement. Raises OperationalError if PostgreSQL does not respond in time."""
        if limits.deadline_seconds is None:
            return super().wait(gen, interval, timeout)
        return super().wait(self._checked(gen), CHECK_SECONDS, timeout)

    def _checked(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run a generator of psycopg until it takes too long. It receives 0 if nothing has arrived."""
        started = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and self._is_too_late(time.monotonic() - started):
                    self.pgconn.finish()
                    raise psycopg.OperationalError("PostgreSQL does not respond")
                wanted = gen.send(ready)
        except StopIteration as stopped:
            return stopped.value

    def _is_too_late(self, seconds: float) -> bool:
        """Return whether to give up on a statement after some seconds without a response."""
        if seconds > cast(float, limits.deadline_seconds):
            return True
        if not limits.watched or seconds < STALL_SECONDS:
            return False
        return outage.is_known() or not self._accepts_connections()

    def _accepts_connections(self) -> bool:
        """Test whether PostgreSQL accepts another connection, unless that was tested in the last second."""
        is_tested = time.monotonic() - limits.tested_at < TEST_EVERY_SECONDS
        if is_tested or not _testing.acquire(blocking=False):
            return True
        try:
            psycopg.connect(self.conninfo, **self.options).close()
        except psycopg.errors.ConnectionTimeout as error:
            outage.record_failure(error)
            return False
        except psycopg.Error:
            # A refusal is a response.
            pass
        finally:
            limits.tested_at = time.monotonic()
            _testing.release()
        return True


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's backend with these connections."""

    Database = SimpleNamespace(**{**vars(psycopg), "connect": Connection.connect})  # type: ignore[assignment]
