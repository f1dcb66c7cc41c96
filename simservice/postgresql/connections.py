"""Helpers for PostgreSQL: consistent reads, time limits of statements, and the errors of an outage."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import InterfaceError, OperationalError, connection, connections, transaction

from simservice.postgresql.base import limits

# Management commands and migrations have no limit.
WEB_STATEMENT_SECONDS = 5
WORKER_STATEMENT_SECONDS = 30
# Added to the limit of a statement, so that a PostgreSQL that responds ends it first
MARGIN_SECONDS = 0.5
# What Django raises if PostgreSQL does not respond in time.
DATABASE_UNAVAILABLE = (OperationalError, InterfaceError)


class StatementTimeout(Exception):
    """A statement took longer than `statement_timeout` allows."""


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


@contextmanager
def statement_timeout(milliseconds: int) -> Iterator[None]:
    """Limit the time of each SQL statement in the block, which is a transaction. Raises StatementTimeout."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(milliseconds)])
            yield
    except OperationalError as error:
        if "statement timeout" not in str(error):
            raise
        raise StatementTimeout from None


def is_pooled(wrapper: Any) -> bool:
    """Return whether a pooler is between an open connection and PostgreSQL."""
    with wrapper.wrap_database_errors:
        return bool(wrapper.connection.is_pooled)


def limit_statements(seconds: int, *, watched: bool = False) -> None:
    """Limit every statement of this process, waits for locks included. Call before the first connection.

    A longer statement raises OperationalError, even if PostgreSQL does not respond. With `watched`, a PostgreSQL
    that does not respond is noticed sooner (`simservice/postgresql/base.py`).
    """
    connections.settings["default"]["OPTIONS"]["options"] += f" -c statement_timeout={seconds}s"
    limits.deadline_seconds, limits.watched = seconds + MARGIN_SECONDS, watched
