"""Helpers for PostgreSQL: consistent reads, time limits of statements, and the errors of an outage."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import InterfaceError, OperationalError, connection, connections, transaction

# Management commands and migrations have no limit.
WEB_STATEMENT_SECONDS = 5
WORKER_STATEMENT_SECONDS = 30
# What Django raises if PostgreSQL does not respond in time.
DATABASE_UNAVAILABLE = (OperationalError, InterfaceError)


@contextmanager
def snapshot() -> Iterator[None]:
    """Make all queries of the block see the same state of the database, and allow no writes.

    Inside another transaction, that transaction's isolation applies instead.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def run(*statements: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Execute statements in one round trip and return the rows of the last one. All share the parameters.

    Outside a transaction, they form one: all take effect or none. Each sees what was committed before it started,
    so the last one sees what an earlier one waited for. A statement that itself waits for a lock does not: it reads
    other rows as they were before the wait. `statement_timestamp()` is the time before the first statement.

    They are one message, because locks of a process that stops between two messages would not time out.
    """
    with transaction.mark_for_rollback_on_error(), connection.cursor() as cursor:
        cursor.execute("; ".join(statements), parameters)
        for _ in statements[1:]:
            cursor.nextset()
        return list(cursor.fetchall())


def limit_statements(seconds: int) -> None:
    """Limit every statement of this process, waits for locks included. Call before the first connection.

    A longer statement raises OperationalError.
    """
    connections.settings["default"]["OPTIONS"]["options"] += f" -c statement_timeout={seconds}s"
