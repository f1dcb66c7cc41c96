"""Statements of the busiest requests: several in one round trip, and prepared once for each connection.

Behind a pooler such as PgBouncer, they are not prepared.

They bypass the ORM, so tests compare each statement with a reference implementation that uses the ORM.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from django.db import DatabaseError, NotSupportedError, connection, transaction
from psycopg import Connection
from psycopg.errors import InvalidSqlStatementName

from simservice.database import DATABASE_UNAVAILABLE, is_pooled

Row = tuple[Any, ...]
PLACEHOLDER = re.compile(r"%\((\w+)\)s")
# The names of the statements that each connection has prepared; None if it leads to a pooler, where every
# transaction can run on another connection to PostgreSQL.
_prepared: WeakKeyDictionary["Connection[Any]", set[str] | None] = WeakKeyDictionary()


class Statement:
    """SQL with named placeholders. The name is that of the prepared statement."""

    def __init__(self, name: str, sql: str) -> None:
        self.name = name
        self.sql = sql
        names = list(dict.fromkeys(PLACEHOLDER.findall(sql)))
        numbered = PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", sql)
        self.prepare = f"PREPARE {name} AS {numbered}"
        values = ", ".join(f"%({each})s" for each in names)
        self.execute = f"EXECUTE {name} ({values})" if names else f"EXECUTE {name}"


def run(*statements: Statement, values: Mapping[str, Any]) -> list[Row]:
    """Execute statements in one round trip; return the rows of the last one. Raises the errors of `django.db`.

    Outside a transaction, the statements form a transaction of their own: all take effect or none. Each statement
    sees everything that was committed before it started. If an earlier statement waited for a lock, the later ones
    therefore see the changes committed during the wait. A single statement that waits for a lock does not: it reads
    other rows as they were before the wait.

    The statements are sent as one message, so a process that stops never holds a lock between two of them. In all
    of them, `statement_timestamp()` is the time at which PostgreSQL received the message, before any wait for a
    lock. A job's stored times are in order, with one exception: a claim can appear slightly earlier than an
    announcement at the same moment. Sort events by id. Rules that must hold after a wait, such as the expiry of a
    grant, use `clock_timestamp()`.
    """
    try:
        return _run(statements, values)
    except DatabaseError as error:
        # Nothing took effect.
        if not _is_unusable(error):
            raise
        if connection.in_atomic_block:
            # The next `close_old_connections` closes the connection.
            connection.close_at = 0
            raise
        connection.close()
        return _run(statements, values)


def read_first(statement: Statement, *, values: Mapping[str, Any]) -> list[Row]:
    """Execute a request's first statement, which must only read. Raises the errors of `django.db`.

    It replaces the query by which Django checks a connection before each request: if the connection has ended, the
    statement is repeated on a new one.
    """
    wrapper: Any = connection  # the stubs lack its health check
    is_checked = wrapper.connection is None or wrapper.health_check_done or wrapper.in_atomic_block
    wrapper.health_check_done = True
    try:
        return run(statement, values=values)
    except DATABASE_UNAVAILABLE:
        if is_checked or connection.is_usable():
            raise
        connection.close()
        return run(statement, values=values)


def _is_unusable(error: DatabaseError) -> bool:
    """Return whether an error means that this connection's prepared statements cannot be executed.

    Either a migration changed a column's type, or another program, such as a pooler, deallocated the statements.
    """
    return isinstance(error, NotSupportedError) or isinstance(error.__cause__, InvalidSqlStatementName)


def _run(statements: Sequence[Statement], values: Mapping[str, Any]) -> list[Row]:
    with transaction.mark_for_rollback_on_error(), connection.cursor() as cursor:
        is_prepared = _prepare(cursor, statements)
        texts = [statement.execute if is_prepared else statement.sql for statement in statements]
        cursor.execute("; ".join(texts), values)
        for _ in statements[1:]:
            cursor.nextset()
        rows: list[Row] = cursor.fetchall()
    return rows


def _prepare(cursor: Any, statements: Iterable[Statement]) -> bool:
    """Prepare statements that this connection has not prepared yet. Return False if it cannot keep them.

    A rollback keeps prepared statements.
    """
    if connection.connection not in _prepared:
        _prepared[connection.connection] = None if is_pooled(connection) else set()
    done = _prepared[connection.connection]
    if done is None:
        return False
    for statement in statements:
        if statement.name not in done:
            cursor.execute(statement.prepare)
            done.add(statement.name)
    return True
