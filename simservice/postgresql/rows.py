"""Model instances from rows of handwritten SQL, for frequent queries where the ORM costs too much CPU time."""

from collections.abc import Collection, Sequence
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Model

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
