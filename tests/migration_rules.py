"""Check the migrations: `python -m tests.migration_rules`, run by `make check`.

Every migration but the initial ones states its phase. The previous version works after an expanding migration, and
the new version before a contracting one.
"""

import os
import re
import sys
from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import django
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import connection, migrations, models
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from simservice.postgresql.migration_rules import CONTRACT, EXPAND, is_marked

TO_CONTRACT = f"can break the previous version; move it to a `{CONTRACT}` migration"
# Each pattern finds the words that it refuses, in these phases.
SQL_RULES = [
    (re.compile(pattern, re.IGNORECASE), phases, advice)
    for pattern, phases, advice in (
        (r"\b(DROP\s+(?:TABLE|COLUMN|VIEW|FUNCTION|DEFAULT)|RENAME|SET\s+NOT\s+NULL)\b", [EXPAND], TO_CONTRACT),
        (r"\b(ALTER\s+(?:COLUMN\s+)?\w+\s+(?:SET\s+DATA\s+)?TYPE|TRUNCATE|DELETE\s+FROM)\b", [EXPAND], TO_CONTRACT),
        # The previous version cannot violate a constraint on a column that the same statement adds.
        (
            r"(?:^|;)(?![^;]*\bADD\s+COLUMN\b)[^;]*\b(ADD\s+(?:CONSTRAINT|CHECK|UNIQUE))\b",
            [EXPAND],
            TO_CONTRACT,
        ),
        (
            r"\b(ADD\s+COLUMN)\b(?=[^;,]*\bNOT\s+NULL\b)(?![^;,]*\b(?:DEFAULT|GENERATED)\b)",
            [EXPAND, CONTRACT],
            "fails for rows that other processes store; give the column a DEFAULT, or allow NULL",
        ),
        (
            r"\b(ADD\s+COLUMN)\b(?=[^;]*\b(?:CHECK|UNIQUE)\b)(?![^;]*\bNOT\s+VALID\b)",
            [EXPAND, CONTRACT],
            "blocks the table while its rows are read; add the check as NOT VALID, and validate it afterwards",
        ),
        (
            r"\b(CREATE\s+(?:UNIQUE\s+)?INDEX)\s+(?!CONCURRENTLY)",
            [EXPAND, CONTRACT],
            "blocks writes; create the index CONCURRENTLY",
        ),
    )
]
TRIGGER = re.compile(r"\bCREATE\s+(OR\s+REPLACE\s+)?(CONSTRAINT\s+)?TRIGGER\b", re.IGNORECASE)
# Tables with few rows, which are scanned in no time
SMALL = {("billing", "plan")}


def problems(migration: Migration, before: ProjectState) -> Iterator[str]:
    """Yield what is wrong with a migration. `before` is the state that it starts from."""
    phase = getattr(migration, "phase", None)
    if phase not in (EXPAND, CONTRACT):
        yield f'has no phase: set `phase = "{EXPAND}"` or `phase = "{CONTRACT}"` in its class'
        return
    step = Step(migration, before.clone())
    for operation in database_operations(migration.operations):
        for problem in problems_of(operation, step):
            yield f"{operation.describe()}: {problem}"
        step.pass_over(operation)


class Step:
    """The state before an operation, and what its migration has added: no other code uses that yet."""

    def __init__(self, migration: Any, state: ProjectState) -> None:
        self.label, self.state, self.atomic = migration.app_label, state, migration.atomic
        self.phase: str = migration.phase
        self.expands = self.phase == EXPAND
        self.models: set[str] = set()
        self.fields: set[tuple[str, str]] = set()

    def pass_over(self, operation: Operation) -> None:
        if isinstance(operation, migrations.CreateModel):
            self.models.add(operation.name_lower)
        if isinstance(operation, migrations.AddField):
            self.fields.add((operation.model_name_lower, operation.name_lower))
        operation.state_forwards(self.label, self.state)

    def added(self, model: str, fields: set[str]) -> bool:
        """Return whether a model, or all of these fields, are new."""
        return model in self.models or (bool(fields) and all((model, field) in self.fields for field in fields))

    def is_quick(self, model: str) -> bool:
        """Return whether the table of a model is new or small."""
        return model in self.models or (self.label, model) in SMALL

    def field(self, operation: Any) -> Any:
        return self.state.models[self.label, operation.model_name_lower].fields[operation.name]


def database_operations(operations: Any) -> Iterator[Operation]:
    """Yield the operations that change the database."""
    for operation in operations:
        if isinstance(operation, migrations.SeparateDatabaseAndState):
            yield from database_operations(operation.database_operations)
        else:
            yield operation


@singledispatch
def problems_of(_: Any, __: Step) -> Iterator[str]:
    """Yield what is wrong with an operation in its migration's phase."""
    yield from ()


@problems_of.register(migrations.RenameField)
@problems_of.register(migrations.RenameModel)
@problems_of.register(migrations.AlterModelTable)
def _rename(_: Any, __: Step) -> Iterator[str]:
    yield "one version would not know the name; add the new one, copy, and remove the old one later"


@problems_of.register
def _delete_model(_: migrations.DeleteModel, step: Step) -> Iterator[str]:
    if step.expands:
        yield f"the previous version still uses it; do it in a `{CONTRACT}` migration"


@problems_of.register
def _remove_field(operation: migrations.RemoveField, step: Step) -> Iterator[str]:
    if step.expands:
        yield f"the previous version still uses it; do it in a `{CONTRACT}` migration"
    elif _needs_value(step.field(operation)):
        yield "the new version already stores rows without it; first give it a `db_default` or `null=True`"


@problems_of.register
def _add_field(operation: migrations.AddField, step: Step) -> Iterator[str]:
    if operation.model_name_lower not in step.models and _needs_value(operation.field):
        yield "the previous version stores rows without it; give it a `db_default` or `null=True`"
    if not step.is_quick(operation.model_name_lower):
        yield from _blocking(None, operation.field)


@problems_of.register
def _alter_field(operation: migrations.AlterField, step: Step) -> Iterator[str]:
    before = step.field(operation)
    if step.expands:
        yield from _narrowed(before, operation.field)
    if not step.is_quick(operation.model_name_lower):
        yield from _blocking(before, operation.field)


@problems_of.register
def _alter_unique_together(operation: migrations.AlterUniqueTogether, step: Step) -> Iterator[str]:
    state = step.state.models[step.label, operation.name_lower]
    added = set(operation.option_value or ()) - set(state.options.get("unique_together") or ())
    if step.expands and not all(step.added(operation.name_lower, set(fields)) for fields in added):
        yield f"the previous version may store duplicates; do it in a `{CONTRACT}` migration"


@problems_of.register
def _add_constraint(operation: migrations.AddConstraint, step: Step) -> Iterator[str]:
    fields = _fields_of(operation.constraint)
    if step.expands and not step.added(operation.model_name_lower, fields):
        yield f"the previous version may violate it; add it in a `{CONTRACT}` migration"


@problems_of.register
def _add_index(operation: migrations.AddIndex, step: Step) -> Iterator[str]:
    if not step.is_quick(operation.model_name_lower) and not isinstance(operation, AddIndexConcurrently):
        yield "it blocks writes; use `concurrently` in a migration of its own with `atomic = False`"


@problems_of.register
def _run_python(operation: migrations.RunPython, step: Step) -> Iterator[str]:
    if step.atomic or operation.atomic:
        yield "it locks all rows that it changes until it ends; work in batches, with `atomic = False`"


@problems_of.register
def _run_sql(operation: migrations.RunSQL, step: Step) -> Iterator[str]:
    sql = _text(operation.sql)
    for pattern, phases, advice in SQL_RULES:
        if step.phase in phases and (found := pattern.search(sql)):
            yield f"`{found[1]}` {advice}"
    if step.expands and not step.models and TRIGGER.search(sql):
        yield f"it may refuse what the previous version stores; create it in a `{CONTRACT}` migration"


def _text(sql: Any) -> str:
    """Return the statements of a RunSQL operation as one text."""
    parts = [sql] if isinstance(sql, str) else sql
    return "; ".join(part if isinstance(part, str) else part[0] for part in parts)


def _needs_value(field: Any) -> bool:
    """Return whether an INSERT without this column fails. Django's `default` is not known to the database."""
    return not (field.null or field.many_to_many or field.has_db_default())


def _narrowed(before: Any, after: Any) -> Iterator[str]:
    """Yield how a changed column refuses what the previous version stores."""
    if before.null and not after.null:
        yield f"the previous version may store NULL; do it in a `{CONTRACT}` migration"
    elif not _needs_value(before) and _needs_value(after):
        yield f"the previous version may store rows without it; remove the default in a `{CONTRACT}` migration"
    if not before.unique and after.unique:
        yield f"the previous version may store duplicates; do it in a `{CONTRACT}` migration"
    if (
        not before.is_relation
        and before.db_type(connection) != after.db_type(connection)
        and not _is_wider(before, after)
    ):
        yield "the previous version needs the old type; add another column"


def _blocking(before: Any, after: Any) -> Iterator[str]:
    """Yield how adding or changing a column blocks writes while PostgreSQL reads the table."""
    if _has_index(after) and not (before and _has_index(before)):
        yield "it blocks writes; leave out `db_index` and `unique`, and add the index with `concurrently`"
    if _has_check(after) and not (before and _has_check(before)):
        yield "its check blocks the table while all rows are read; add it as NOT VALID, and validate it afterwards"


def _has_index(field: Any) -> bool:
    return bool(field.db_index or field.unique)


def _has_check(field: Any) -> bool:
    return field.get_internal_type() in connection.data_type_check_constraints


def _is_wider(before: Any, after: Any) -> bool:
    """Return whether a text column becomes longer, which rewrites no row."""
    texts = (models.CharField, models.TextField)
    if not (isinstance(before, texts) and isinstance(after, texts)):
        return False
    lengths = [
        getattr(field, "max_length", None) if isinstance(field, models.CharField) else None
        for field in (before, after)
    ]
    return lengths[1] is None or (lengths[0] is not None and lengths[0] <= lengths[1])


def _fields_of(constraint: Any) -> set[str]:
    """Return the fields of a constraint, or nothing if they are not known."""
    condition = getattr(constraint, "condition", None)
    fields = set(getattr(constraint, "fields", ()))
    return fields | ({name.lower() for name in condition.referenced_base_fields} if condition else set())


def main() -> int:
    """Print all problems. Return the exit status."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")
    django.setup(set_prefix=False)
    loader = MigrationLoader(None)
    found = [
        f"{migration.app_label}/migrations/{migration.name}.py: {problem}"
        for key, migration in sorted(loader.disk_migrations.items())
        if is_marked(migration)
        for problem in problems(migration, loader.project_state([key], at_end=False))
    ]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
