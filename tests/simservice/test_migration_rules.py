"""The phases of migrations: what `make check` refuses in each."""

from typing import Any

import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.migrations import Migration
from django.db.migrations.state import ProjectState
from django.db.models import Q

from tests.migration_rules import problems

TABLE = migrations.CreateModel(
    "Thing",
    fields=[
        ("id", models.BigAutoField(primary_key=True)),
        ("name", models.CharField(max_length=10)),
        ("note", models.TextField(null=True)),
        ("count", models.IntegerField(db_default=0)),
    ],
)
POSITIVE = models.CheckConstraint(condition=Q(count__gte=0), name="positive")
LARGE = models.CheckConstraint(condition=Q(size__gte=0), name="large")
SIZE = migrations.AddField("thing", "size", models.IntegerField(db_default=0))
INDEX = models.Index(fields=["name"], name="by_name")

REFUSED_IN_EXPAND = [
    migrations.RemoveField("thing", "note"),
    migrations.DeleteModel("Thing"),
    migrations.RenameField("thing", "note", "text"),
    migrations.RenameModel("Thing", "Object"),
    migrations.AlterModelTable("thing", "objects"),
    migrations.AddField("thing", "size", models.IntegerField(default=0)),
    migrations.AlterField("thing", "note", models.TextField()),
    migrations.AlterField("thing", "name", models.CharField(max_length=9)),
    migrations.AlterField("thing", "name", models.CharField(max_length=10, unique=True)),
    migrations.AlterField("thing", "count", models.BigIntegerField(db_default=0)),
    migrations.AlterField("thing", "count", models.IntegerField()),
    migrations.AddConstraint("thing", POSITIVE),
    migrations.AddIndex("thing", INDEX),
    migrations.RunSQL("ALTER TABLE app_thing ALTER name SET NOT NULL"),
    migrations.RunSQL(["ALTER TABLE app_thing DROP COLUMN name"]),
    migrations.RunSQL([("ALTER TABLE app_thing ALTER COLUMN name TYPE text", None)]),
    migrations.RunSQL("CREATE INDEX by_name ON app_thing (name)"),
    migrations.SeparateDatabaseAndState([migrations.RemoveField("thing", "note")]),
]
ALLOWED_IN_EXPAND: list[list[Any]] = [
    [TABLE],
    [SIZE],
    [SIZE, migrations.AddConstraint("thing", LARGE)],
    [migrations.AddField("thing", "size", models.IntegerField(null=True))],
    [migrations.AlterField("thing", "name", models.CharField(max_length=11))],
    [migrations.AlterField("thing", "name", models.TextField())],
    [AddIndexConcurrently("thing", INDEX)],
    [migrations.RunSQL("CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS by_name ON app_thing (name)")],
]
ALLOWED_IN_CONTRACT: list[list[Any]] = [
    [migrations.RemoveField("thing", "note")],
    [migrations.RemoveField("thing", "count")],
    [migrations.DeleteModel("Thing")],
    [migrations.AddConstraint("thing", POSITIVE)],
    [migrations.AlterField("thing", "note", models.TextField())],
    [migrations.RunSQL("ALTER TABLE app_thing DROP COLUMN name")],
]
REFUSED_IN_CONTRACT = [
    migrations.RemoveField("thing", "name"),
    migrations.RenameField("thing", "note", "text"),
    migrations.AddIndex("thing", INDEX),
    migrations.RunSQL("CREATE INDEX by_name ON app_thing (name)"),
]


def found(*operations: Any, phase: str | None) -> list[str]:
    """Return the problems of a migration of a table that exists."""
    state = ProjectState()
    if TABLE not in operations:
        TABLE.state_forwards("app", state)
    migration: Any = Migration("0002_next", "app")
    migration.operations, migration.phase = list(operations), phase
    return list(problems(migration, state))


@pytest.mark.parametrize("operation", REFUSED_IN_EXPAND, ids=lambda each: each.describe())
def test_expand_refuses_what_the_previous_version_needs(operation: Any) -> None:
    assert len(found(operation, phase="expand")) == 1


@pytest.mark.parametrize("operations", ALLOWED_IN_EXPAND)
def test_expand_allows_additions(operations: list[Any]) -> None:
    assert found(*operations, phase="expand") == []


@pytest.mark.parametrize("operations", ALLOWED_IN_CONTRACT)
def test_contract_allows_removals(operations: list[Any]) -> None:
    assert found(*operations, phase="contract") == []


@pytest.mark.parametrize("operation", REFUSED_IN_CONTRACT, ids=lambda each: each.describe())
def test_contract_refuses_what_the_new_version_needs(operation: Any) -> None:
    assert len(found(operation, phase="contract")) == 1


@pytest.mark.parametrize("phase", [None, "later"])
def test_every_migration_states_its_phase(phase: str | None) -> None:
    assert found(SIZE, phase=phase) == ['has no phase: set `phase = "expand"` or `phase = "contract"` in its class']
