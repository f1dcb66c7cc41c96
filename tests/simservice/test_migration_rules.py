"""The phases of migrations: what `make check` refuses in each."""

from typing import Any

import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.migrations import Migration
from django.db.migrations.state import ProjectState
from django.db.models import Q

from tests import migration_rules
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
    migrations.AlterUniqueTogether("thing", {("name", "count")}),
    migrations.AlterField("thing", "count", models.BigIntegerField(db_default=0)),
    migrations.AlterField("thing", "count", models.IntegerField()),
    migrations.AddConstraint("thing", POSITIVE),
    migrations.RunSQL("ALTER TABLE app_thing ALTER name SET NOT NULL"),
    migrations.RunSQL(["ALTER TABLE app_thing DROP COLUMN name"]),
    migrations.RunSQL([("ALTER TABLE app_thing ALTER COLUMN name TYPE text", None)]),
    migrations.RunSQL("DELETE FROM app_thing"),
    migrations.RunSQL("ALTER TABLE app_thing ADD CHECK (count > 0) NOT VALID"),
    migrations.RunSQL("CREATE TRIGGER guard BEFORE INSERT ON app_thing EXECUTE FUNCTION refuse()"),
    migrations.SeparateDatabaseAndState([migrations.RemoveField("thing", "note")]),
]
REFUSED_IN_BOTH = [
    migrations.AddIndex("thing", INDEX),
    migrations.AddField("thing", "other", models.ForeignKey("app.Thing", models.CASCADE, null=True)),
    migrations.AddField("thing", "size", models.IntegerField(null=True, db_index=True)),
    migrations.AddField("thing", "size", models.IntegerField(null=True, unique=True)),
    migrations.AddField("thing", "size", models.PositiveIntegerField(null=True)),
    migrations.AlterField("thing", "name", models.CharField(max_length=10, db_index=True)),
    migrations.AlterField("thing", "count", models.PositiveIntegerField(db_default=0)),
    migrations.RunSQL("CREATE INDEX by_name ON app_thing (name)"),
    migrations.RunSQL("ALTER TABLE app_thing ADD COLUMN n int NOT NULL"),
    migrations.RunSQL("ALTER TABLE app_thing ADD COLUMN n int CHECK (n > 0)"),
    migrations.RunPython(migrations.RunPython.noop),
]
ALLOWED_IN_EXPAND: list[list[Any]] = [
    [TABLE],
    [SIZE],
    [SIZE, migrations.AddConstraint("thing", LARGE)],
    [migrations.AddField("thing", "size", models.IntegerField(null=True))],
    [migrations.AlterField("thing", "name", models.CharField(max_length=11))],
    [migrations.AlterField("thing", "name", models.TextField())],
    [AddIndexConcurrently("thing", INDEX)],
    [
        migrations.AddField(
            "thing", "other", models.ForeignKey("app.Thing", models.CASCADE, null=True, db_index=False)
        )
    ],
    [TABLE, migrations.AddField("thing", "size", models.PositiveIntegerField(db_default=0, db_index=True))],
    [TABLE, migrations.RunSQL("CREATE TRIGGER guard BEFORE DELETE ON app_thing EXECUTE FUNCTION refuse()")],
    [migrations.AlterUniqueTogether("thing", set())],
    [migrations.RunSQL("ALTER TABLE app_thing ADD COLUMN n int NOT NULL DEFAULT 0")],
    [migrations.RunSQL("ALTER TABLE app_thing ADD COLUMN n int, ADD CONSTRAINT c CHECK (n > 0) NOT VALID")],
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


@pytest.mark.parametrize("phase", ["expand", "contract"])
@pytest.mark.parametrize("operation", REFUSED_IN_BOTH, ids=lambda each: each.describe())
def test_both_phases_refuse_what_blocks_writes(operation: Any, phase: str) -> None:
    assert len(found(operation, phase=phase)) == 1


def test_expand_refuses_a_new_unique_index() -> None:
    unique = migrations.AlterField("thing", "name", models.CharField(max_length=10, unique=True))
    duplicates, writes = found(unique, phase="expand")
    assert "may store duplicates" in duplicates
    assert "blocks writes" in writes


def test_small_tables_can_be_read_in_a_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration_rules, "SMALL", {("app", "thing")})
    positive = migrations.AddField("thing", "size", models.PositiveIntegerField(null=True))
    assert found(positive, phase="expand") == []


def test_python_can_work_in_batches() -> None:
    migration: Any = Migration("0002_next", "app")
    migration.operations, migration.phase = [migrations.RunPython(migrations.RunPython.noop)], "expand"
    migration.atomic = False
    assert list(problems(migration, ProjectState())) == []


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
