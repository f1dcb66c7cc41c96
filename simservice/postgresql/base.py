"""Connections to PostgreSQL that give up if it does not respond.

If the server is frozen or the network drops packets, connections stay open, and PostgreSQL's own time limits do
not apply. Without a limit here, every thread of a process would wait until the outage ends.
"""

import re
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any, Self, cast
from uuid import UUID

import psycopg
from django.db.backends.postgresql import base, operations
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import BytesBinaryDumper
from psycopg.types.uuid import UUIDBinaryDumper
from psycopg.waiting import Ready

from simservice.outages import Outage

# A watched statement that takes longer makes its thread test whether PostgreSQL responds on another connection.
STALL_SECONDS = 0.5
TEST_EVERY_SECONDS = 1.0
CHECK_SECONDS = 0.1
# The shortest time that psycopg allows for a connection
CONNECT_SECONDS = 2
PLACEHOLDER = re.compile(r"%\((\w+)\)s")


class StatementLimits:
    """The limits of this process: none for commands and migrations."""

    deadline_seconds: float | None = None
    watched = False
    # Monotonic time
    tested_at = float("-inf")


limits = StatementLimits()
_testing = threading.Lock()
outage = Outage(
    "PostgreSQL",
    consequence="requests fail at once",
    recovery="requests are answered",
    probe_seconds=2 * CONNECT_SECONDS,
)


class NoResponse(psycopg.OperationalError):
    """PostgreSQL does not respond."""

    def __init__(self) -> None:
        super().__init__("PostgreSQL does not respond")


class Connection(psycopg.Connection[Any]):
    """A connection that is closed if PostgreSQL does not respond to a statement."""

    # The arguments of `connect`
    conninfo: str
    options: dict[str, Any]

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connect. Raises OperationalError, immediately during a known outage."""
        if limits.watched:
            options |= {"connect_timeout": CONNECT_SECONDS}
            if not outage.may_try():
                raise NoResponse
            if outage.is_known():
                _require_response(conninfo, options)
        try:
            connected = super().connect(conninfo, **options)
        except psycopg.errors.ConnectionTimeout as error:
            if limits.watched:
                outage.record_failure(error)
            raise
        connected.conninfo, connected.options = conninfo, options
        return connected

    @cached_property
    def is_pooled(self) -> bool:
        """Return whether a pooler is between this process and PostgreSQL. The first call takes one round trip.

        A pooler invents the process id that it reports for cancelling statements.
        """
        ((process,),) = self.execute("SELECT pg_backend_pid()").fetchall()
        return bool(process != self.info.backend_pid)

    def wait(
        self, gen: Generator[Any, Any, Any], interval: float = CHECK_SECONDS, timeout: float | None = None
    ) -> Any:
        """Wait for a statement. Raises NoResponse if PostgreSQL does not respond in time."""
        if limits.deadline_seconds is None:
            return super().wait(gen, interval, timeout)
        return super().wait(_bounded(gen, self, self._is_too_late), CHECK_SECONDS, timeout)

    def _is_too_late(self, seconds: float) -> bool:
        if seconds > cast(float, limits.deadline_seconds):
            return True
        if not limits.watched or seconds < STALL_SECONDS:
            return False
        return outage.is_known() or not self._responds_elsewhere()

    def _responds_elsewhere(self) -> bool:
        """Test whether PostgreSQL responds on another connection, unless that was tested in the last second."""
        is_tested = time.monotonic() - limits.tested_at < TEST_EVERY_SECONDS
        if is_tested or not _testing.acquire(blocking=False):
            return True
        try:
            _require_response(self.conninfo, self.options)
        except (psycopg.errors.ConnectionTimeout, NoResponse):
            return False
        except psycopg.Error:
            # A refusal is a response.
            pass
        finally:
            limits.tested_at = time.monotonic()
            _testing.release()
        return True


class Probe(psycopg.Connection[Any]):
    """A connection that waits as long for a statement as for the connection."""

    def wait(
        self, gen: Generator[Any, Any, Any], interval: float = CHECK_SECONDS, timeout: float | None = None
    ) -> Any:
        """Wait for a statement. Raises NoResponse."""
        return super().wait(_bounded(gen, self, lambda seconds: seconds > CONNECT_SECONDS), interval, timeout)


def _require_response(conninfo: str, options: dict[str, Any]) -> None:
    """Connect and run a statement, because a pooler accepts connections by itself.

    Raises ConnectionTimeout, NoResponse, or another error of psycopg, which is a response.
    """
    try:
        with closing(Probe.connect(conninfo, **options)) as probe:
            probe.execute("SELECT 1")
    except (psycopg.errors.ConnectionTimeout, NoResponse) as error:
        outage.record_failure(error)
        raise


def _bounded(
    gen: Generator[Any, Any, Any], connection: psycopg.Connection[Any], is_too_late: Callable[[float], bool]
) -> Generator[Any, Any, Any]:
    """Run a generator of psycopg, which receives 0 while nothing arrives. Raises NoResponse after too long."""
    started = time.monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready & Ready.R:
                outage.record_success()
            elif not ready and is_too_late(time.monotonic() - started):
                connection.pgconn.finish()
                raise NoResponse
            wanted = gen.send(ready)
    except StopIteration as stopped:
        return stopped.value


# PostgreSQL derives the types of these values from the statement. Otherwise, each size of integers, and each
# combination of values and NULLs, would need its own prepared statement.
DUMPERS: dict[type, Any] = {int: Int8Dumper, bytes: BytesBinaryDumper, UUID: UUIDBinaryDumper}
UNTYPED = {kind: type("Untyped", (dumper,), {"oid": 0}) for kind, dumper in DUMPERS.items()}


class PreparedCursor(psycopg.RawCursor[Any]):
    """A cursor that sends statements and named values separately, so that statements can be prepared."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection)
        for kind, dumper in UNTYPED.items():
            self.adapters.register_dumper(kind, dumper)

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        text, names = numbered(query)
        return super().execute(text, [params[name] for name in names], **options)


@cache
def numbered(sql: str) -> tuple[bytes, list[str]]:
    """Return a statement with `$1`, `$2` and so on for its named values, and their names."""
    names = list(dict.fromkeys(PLACEHOLDER.findall(sql)))
    text = PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", sql)
    return text.replace("%%", "%").encode(), names


class DatabaseOperations(operations.DatabaseOperations):
    """Database operations that also log the values of prepared statements."""

    def last_executed_query(self, cursor: Any, sql: str, params: Any) -> Any:
        """Return a statement with its values, for Django's debug log and the tests."""
        if isinstance(cursor, PreparedCursor):
            return str(self.compose_sql(sql, params))
        return super().last_executed_query(cursor, sql, params)


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's backend with these connections."""

    Database = SimpleNamespace(**{**vars(psycopg), "connect": Connection.connect})  # type: ignore[assignment]
    ops_class = DatabaseOperations

    @contextmanager
    def prepared(self, *, pipelined: bool) -> Iterator[Any]:
        """Yield a cursor that prepares its statements on first use.

        If they are `pipelined`, they are sent without waiting for results, which are complete after the block.
        """
        cursor: Any = self.cursor()
        with self.wrap_database_errors:
            connection = cursor.connection
            cursor.cursor = PreparedCursor(connection)
            # Otherwise, psycopg would remember Django's latest statements, which contain their values.
            connection.prepare_threshold = None if connection.is_pooled else 0
            try:
                with connection.pipeline() if pipelined else nullcontext():
                    yield cursor
            finally:
                connection.prepare_threshold = None
