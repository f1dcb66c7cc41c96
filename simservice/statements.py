"""Statements of the busiest requests: prepared once for each connection, several in one round trip.

They skip the ORM, so tests compare each of them with an equal form that uses it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from django.db import connection, models, transaction
from psycopg import Connection

M = TypeVar("M", bound=models.Model)
Row = tuple[Any, ...]
PLACEHOLDER = re.compile(r"%\((\w+)\)s")
# The names of the statements that each connection has prepared.
_prepared: WeakKeyDictionary["Connection[Any]", set[str]] = WeakKeyDictionary()


class Statement:
    """SQL with named placeholders. The name is that of the prepared statement."""

    def __init__(self, name: str, sql: str) -> None:
        self.name = name
        self.sql = sql
        names = list(dict.fromkeys(PLACEHOLDER.findall(sql)))
        numbered = PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", sql)
        self.prepare = f"PREPARE {name} AS {numbered}"
        self.execute = f"EXECUTE {name} ({', '.join(f'%({each})s' for each in names)})"


def run(*statements: Statement, values: Mapping[str, Any]) -> list[Row]:
    """Execute statements in one round trip; return the rows of the last one. Raises the errors of `django.db`.

    Outside a transaction they form one: all take effect or none. Each statement sees what was committed before it
    started, so it sees everything that a lock of an earlier one waited for. A single statement that waits for a
    lock reads other rows as they were before the wait.

    They are one message, so that no lock waits for a process that stops between two. Therefore,
    `statement_timestamp()` is the time before the first one.
    """
    with transaction.mark_for_rollback_on_error(), connection.cursor() as cursor:
        _prepare(cursor, statements)
        cursor.execute("; ".join(statement.execute for statement in statements), values)
        for _ in statements[1:]:
            cursor.nextset()
        return cursor.fetchall()


def _prepare(cursor: Any, statements: Iterable[Statement]) -> None:
    """Prepare the statements that this connection has not prepared yet. A rollback does not undo it."""
    done = _prepared.setdefault(connection.connection, set())
    for statement in statements:
        if statement.name not in done:
            cursor.execute(statement.prepare)
            done.add(statement.name)


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
