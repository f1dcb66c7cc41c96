"""SQL statements in files, prepared and executed several in one round trip, and models made of their rows.

Behind a pooler such as PgBouncer, they are not prepared, because each transaction can run on another connection.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, DatabaseError, NotSupportedError, connection, transaction
from django.db.models import Model
from psycopg.errors import InvalidSqlStatementName

from simservice.postgresql.connections import DATABASE_UNAVAILABLE

Row = tuple[Any, ...]
# The comment that names a statement or a part, and the comments that describe it
HEADING = re.compile(r"^-- (name|part): (\w+)\n(?:--.*\n)*", re.MULTILINE)


def load(module_file: str, *others: Mapping[str, str], **parts: str) -> dict[str, str]:
    """Return the statements and parts of the `.sql` file beside a module, by name.

    `{name}` includes a part or a statement: an earlier one from the file, or one from `others` or `parts`. Each
    statement begins with a comment that contains its name, for PostgreSQL's log.
    """
    found = {name: text for other in [*others, parts] for name, text in other.items()}
    _, *blocks = HEADING.split(Path(module_file).with_suffix(".sql").read_text(encoding="utf-8"))
    own = {}
    for kind, name, body in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True):
        text = body.strip().format_map(found)
        own[name] = found[name] = f"/* {name} */ {text}" if kind == "name" else text
    return own


def run(*statements: str, values: Mapping[str, Any]) -> list[Row]:
    """Execute statements in one round trip; return the rows of the last one. Raises the errors of `django.db`.

    Outside a transaction, the statements form a transaction of their own: all take effect or none. Each statement
    sees everything that was committed before it started. If an earlier statement waited for a lock, the later ones
    therefore see the changes committed during the wait, and their `statement_timestamp()` is after it. A single
    statement that waits for a lock does not: it reads other rows as they were before the wait, and its
    `statement_timestamp()` is before it. A job's stored times are in order, with one exception: a claim can appear
    slightly earlier than an announcement at the same moment. Sort events by id.

    The statements are sent without waiting for results. If the process dies before all are sent, PostgreSQL ends
    the transaction at once.
    """
    try:
        return _run(statements, values)
    except DatabaseError as error:
        # Prepared statements become unusable if a migration changes a column's type, or if another program, such as
        # a pooler, deallocates them. After the rollback of a transaction, psycopg prepares all statements again.
        is_unusable = isinstance(error, NotSupportedError) or isinstance(error.__cause__, InvalidSqlStatementName)
        if connection.in_atomic_block or not is_unusable:
            raise
        connection.close()
        return _run(statements, values)


def read_first(statement: str, *, values: Mapping[str, Any]) -> list[Row]:
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


def _run(statements: tuple[str, ...], values: Mapping[str, Any]) -> list[Row]:
    wrapper: Any = connection
    with transaction.mark_for_rollback_on_error(), wrapper.prepared(pipelined=len(statements) > 1) as cursor:
        for statement in statements:
            cursor.execute(statement, values)
    while cursor.nextset():
        pass
    rows: list[Row] = cursor.fetchall()
    return rows


M = TypeVar("M", bound=Model)


class RowReader(Generic[M]):
    """Makes instances of a model from some of its columns; the other fields are deferred, as with `only()`."""

    def __init__(self, model: type[M], *, only: Collection[str] = (), without: Collection[str] = ()) -> None:
        """Choose the fields by their attribute names: `only` these, or all `without` these."""
        meta = model._meta  # noqa: SLF001 - public by its documentation
        chosen = [
            one for one in meta.concrete_fields if (one.attname in only if only else one.attname not in without)
        ]
        self._model = model
        self._names = [one.attname for one in chosen]
        self._converters = [
            (number, one.from_db_value) for number, one in enumerate(chosen) if hasattr(one, "from_db_value")
        ]
        # The columns as a part of a SELECT
        self.columns = ", ".join(f'{meta.db_table}."{one.column}"' for one in chosen)
        self.width = len(chosen)

    def instance(self, row: Sequence[Any]) -> M:
        """Return the instance for a row whose first values are these columns."""
        values = list(row[: self.width])
        for number, convert in self._converters:
            values[number] = convert(values[number], None, connection)
        return self._model.from_db(DEFAULT_DB_ALIAS, self._names, values)
