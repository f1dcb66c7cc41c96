"""Statements of the busiest requests: prepared once for each connection, several in one round trip.

They skip the ORM, so tests compare each of them with an equal form that uses it.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar, cast

from django.db import connection, models, transaction
from psycopg import Cursor
from psycopg.types.numeric import Int8

M = TypeVar("M", bound=models.Model)
Row = tuple[Any, ...]


class Statement(NamedTuple):
    """SQL with named placeholders, and their values."""

    sql: str
    values: Mapping[str, Any]


def run(*statements: Statement) -> list[list[Row]]:
    """Send statements in one round trip; return the rows of each. Raises the errors of `django.db`.

    Outside a transaction they form one: all take effect or none. Each statement sees what was committed before it
    started, so it sees everything that a lock of an earlier one waited for. A single statement that waits for a
    lock reads other rows as they were before the wait.
    """
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    cursors = []
    with transaction.mark_for_rollback_on_error(), connection.wrap_database_errors, _pipeline():
        for statement in statements:
            cursor = _cursor()
            cursor.execute(statement.sql, _sendable(statement.values))
            cursors.append(cursor)
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def _pipeline() -> Any:
    """Return the block whose statements are sent together."""
    return connection.connection.pipeline()


def _cursor() -> Any:
    """Return a cursor whose statements PostgreSQL prepares; Django's own cursors write the values into the text.

    While Django logs queries, return its own cursor, because it logs the text that was sent.
    """
    if connection.queries_logged:
        return connection.cursor()
    return connection.make_cursor(cast(Any, Cursor(connection.connection)))


def _sendable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with all integers as bigint, so that a statement is prepared once and not for each size."""
    return {name: Int8(value) if type(value) is int else value for name, value in values.items()}


class Columns(Generic[M]):
    """The columns of a model in a SELECT: all of them, or those of some fields. The others are deferred."""

    def __init__(self, model: type[M], *names: str) -> None:
        self.model = model
        self.fields = [field for field in model._meta.concrete_fields if not names or field.name in names]  # noqa: SLF001
        self.names = [field.attname for field in self.fields]
        # Only JSON needs a conversion.
        self.conversions = [
            (place, conversion)
            for place, field in enumerate(self.fields)
            for conversion in field.get_db_converters(connection)
        ]

    def __str__(self) -> str:
        table = self.model._meta.db_table  # noqa: SLF001
        return ", ".join(f'{table}."{field.column}"' for field in self.fields)

    def instance(self, row: Iterator[Any]) -> M:
        """Take the values of these columns from a row, and return their instance."""
        values = list(islice(row, len(self.fields)))
        for place, conversion in self.conversions:
            values[place] = conversion(values[place], None, connection)
        return self.model.from_db(connection.alias, self.names, values)
