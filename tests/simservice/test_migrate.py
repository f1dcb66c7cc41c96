"""`manage.py migrate`: phases, time limits, and retries while a lock is not free."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from psycopg import Connection
from pytest_django import Settings

from simservice.management.commands import migrate

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.direct("`migrate` refuses poolers")]
SOURCE = """
from django.db import migrations, models
from simservice.postgresql.migration_rules import concurrently, without_limits

class Migration(migrations.Migration):
    dependencies = [("webhooks", {after!r})]
    phase = {phase!r}
    atomic = {atomic!r}
    operations = {operations}
"""
ADD = "ALTER TABLE webhooks_delivery ADD COLUMN drill integer"
INDEX = "concurrently('delivery', models.Index(fields=['outcome'], name='drill'))"
LIMITS = "SELECT current_setting('lock_timeout') AS locks, current_setting('statement_timeout') AS statements"
KEEP_LIMITS = "CREATE TABLE kept AS " + LIMITS


def query(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []


def applied() -> list[str]:
    """Return the applied migrations of these tests."""
    names = MigrationRecorder.Migration.objects.filter(app="webhooks", name__startswith="9")
    return sorted(names.values_list("name", flat=True))


class Later:
    """Later migrations of `webhooks`, in a package that follows the existing ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last = max(path.stem for path in folder.glob("0*.py"))

    def add(self, phase: str, sql: str = "SELECT 1", *, operations: str = "", atomic: bool = True) -> None:
        """Add a migration with some SQL, or with operations in Python."""
        name = f"{9000 + len(list(self.folder.glob('9*.py')))}_{phase}"
        operations = operations or f"[migrations.RunSQL({sql!r}, migrations.RunSQL.noop)]"
        source = SOURCE.format(after=self.last, phase=phase, operations=operations, atomic=atomic)
        (self.folder / f"{name}.py").write_text(source)
        self.last = name


@pytest.fixture
def later(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Later]:
    package = tmp_path / f"later_{tmp_path.name}"
    package.mkdir()
    existing = settings.BASE_DIR / "webhooks" / "migrations"
    for path in existing.glob("*.py"):
        (package / path.name).write_bytes(path.read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    settings.MIGRATION_MODULES = {"webhooks": package.name}
    yield Later(package)
    query("DROP TABLE IF EXISTS kept; DROP INDEX IF EXISTS drill")
    query("ALTER TABLE webhooks_delivery DROP COLUMN IF EXISTS drill")
    query("DELETE FROM django_migrations WHERE app = 'webhooks' AND name LIKE '9%'")


def test_expand_leaves_contracting_migrations_out(later: Later) -> None:
    later.add("expand")
    later.add("contract")
    call_command("migrate", expand=True, verbosity=0)
    assert applied() == ["9000_expand"]
    call_command("migrate", verbosity=0)
    assert applied() == ["9000_expand", "9001_contract"]


def test_a_skipped_contracting_migration_is_reported(later: Later) -> None:
    later.add("contract")
    later.add("expand")
    with pytest.raises(CommandError, match=r"webhooks\.9001_expand needs webhooks\.9000_contract"):
        call_command("migrate", expand=True, verbosity=0)
    assert applied() == []


def test_a_pooler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "is_pooled", lambda _: True)
    with pytest.raises(CommandError, match="connection pooler"):
        call_command("migrate", verbosity=0)


def test_expand_applies_to_all_apps() -> None:
    with pytest.raises(CommandError, match="do not name one"):
        call_command("migrate", "jobs", expand=True)


def test_an_empty_database_gets_all_migrations(later: Later, monkeypatch: pytest.MonkeyPatch) -> None:
    later.add("contract")
    later.add("expand")
    monkeypatch.setattr(MigrationRecorder, "applied_migrations", lambda _: {})
    assert migrate.Command()._targets(connection) == [{}]


@pytest.mark.parametrize("atomic", [True, False])
def test_a_migration_has_limits_for_locks_and_statements(later: Later, *, atomic: bool) -> None:
    before = query(LIMITS)
    later.add("expand", KEEP_LIMITS, atomic=atomic)
    call_command("migrate", verbosity=0)
    assert query("SELECT * FROM kept") == [("2s", "15s")]
    assert query(LIMITS) == before


def test_a_migration_can_lift_the_limits(later: Later) -> None:
    later.add("expand", operations=f"without_limits(migrations.RunSQL({KEEP_LIMITS!r}))", atomic=False)
    call_command("migrate", verbosity=0)
    assert query("SELECT * FROM kept") == [("0", "0")]


@pytest.mark.parametrize("statement", ["DROP INDEX", "CREATE INDEX"])
def test_an_interrupted_index_is_created_again(later: Later, statement: str) -> None:
    def interrupt(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        execute(sql, *args)
        if statement in str(sql):
            raise InterruptedError

    later.add("expand", operations=INDEX, atomic=False)
    with pytest.raises(InterruptedError), connection.execute_wrapper(interrupt):
        call_command("migrate", verbosity=0)
    query("UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass('drill')")
    call_command("migrate", verbosity=0)
    assert query("SELECT indisvalid FROM pg_index WHERE indexrelid = 'drill'::regclass") == [(True,)]
    assert applied() == ["9000_expand"]


def test_a_migration_waits_for_a_lock_in_short_tries(later: Later, monkeypatch: pytest.MonkeyPatch) -> None:
    later.add("expand", ADD)
    holder: Connection[Any] = connection.copy().get_new_connection(connection.get_connection_params())
    holder.autocommit = False
    holder.execute("LOCK TABLE webhooks_delivery IN ACCESS SHARE MODE")
    pauses: list[float] = []

    def release(seconds: float) -> None:
        pauses.append(seconds)
        holder.close()

    monkeypatch.setattr("simservice.management.commands.migrate.time.sleep", release)
    call_command("migrate", verbosity=0)
    assert (pauses, applied()) == ([migrate.PAUSE_SECONDS], ["9000_expand"])


def test_a_lock_that_stays_taken_ends_the_command(later: Later, monkeypatch: pytest.MonkeyPatch) -> None:
    later.add("expand", ADD)
    monkeypatch.setattr(migrate, "TRIES", 1)
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("BEGIN; LOCK TABLE webhooks_delivery IN ACCESS SHARE MODE")
        with pytest.raises(OperationalError, match="lock timeout"):
            call_command("migrate", verbosity=0)
    other.close()
    assert applied() == []


def test_other_errors_are_not_repeated(later: Later, monkeypatch: pytest.MonkeyPatch) -> None:
    later.add("expand", "SELECT pg_sleep(5)")
    monkeypatch.setattr(migrate, "STATEMENT_SECONDS", 1)
    monkeypatch.setattr("simservice.management.commands.migrate.time.sleep", pytest.fail)
    with pytest.raises(OperationalError, match="statement timeout"):
        call_command("migrate", verbosity=0)
