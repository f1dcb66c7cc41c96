"""The migrations that create and drop indexes concurrently can be run again after an interruption."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from simservice.operations import doctor
from simservice.operations.doctor import Check

pytestmark = pytest.mark.django_db(transaction=True)

Target = tuple[str, str]
JOBS = (("jobs", "0015_ordered_metadata"), ("jobs", "0016_narrower_indexes"))
BILLING = (("billing", "0006_grant_reasons_and_pools"), ("billing", "0007_autovacuum"))
HISTORY = (("jobs", "0020_job_details"), ("jobs", "0021_titles_and_history"))
RETENTION = (("jobs", "0026_stored_bytes"), ("jobs", "0027_retention_by_plan"))
DIRECTIONS = [JOBS, BILLING[::-1], HISTORY]
CHECK = "SELECT convalidated FROM pg_constraint WHERE conname = 'jobs_job_retention_days_check'"
INDEXES = """
    SELECT indexrelid::regclass::text, indisvalid, pg_get_indexdef(indexrelid) FROM pg_index
    WHERE indrelid IN ('jobs_job'::regclass, 'billing_hold'::regclass) ORDER BY 1
"""


def migrate(target: Target) -> None:
    MigrationExecutor(connection).migrate([target])


def query(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []


def messages_of(check: Check) -> list[str]:
    return [finding.message for finding in check()]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Run all migrations after the test."""
    yield
    query("RESET statement_timeout; RESET lock_timeout")
    MigrationExecutor(connection).migrate(MigrationExecutor(connection).loader.graph.leaf_nodes())
    query("RESET statement_timeout; RESET lock_timeout")


@pytest.mark.parametrize(("before", "after"), DIRECTIONS)
def test_an_invalid_index_is_created_again(before: Target, after: Target) -> None:
    migrate(after)
    expected = query(INDEXES)
    migrate(before)
    # Creating an index concurrently waits for transactions that have written to its table.
    writer = connection.copy()
    try:
        with writer.cursor() as other:
            other.execute("BEGIN; LOCK TABLE jobs_job, billing_hold IN ROW EXCLUSIVE MODE")
        query("SET statement_timeout = '1s'")
        with pytest.raises(DatabaseError, match="statement timeout"):
            migrate(after)
        query("RESET statement_timeout")
    finally:
        writer.close()
    (invalid,) = [name for name, is_valid, _ in query(INDEXES) if not is_valid]
    assert f"A migration was interrupted, so these are not valid: {invalid}." in messages_of(doctor.check_schema)
    migrate(after)
    assert query(INDEXES) == expected


@pytest.mark.parametrize(("before", "after"), [*DIRECTIONS, RETENTION])
def test_a_migration_resumes_after_any_statement(before: Target, after: Target) -> None:
    migrate(after)
    expected = query(INDEXES)
    migrate(before)
    for number in range(30):
        with connection.execute_wrapper(Interruption(number)):
            try:
                migrate(after)
            except InterruptedError:
                continue
        break
    assert number in range(2, 29)
    assert query(INDEXES) == expected


def test_days_of_retention_are_checked_without_a_long_lock() -> None:
    before, after = RETENTION
    migrate(before)
    with pytest.raises(InterruptedError), connection.execute_wrapper(Interruption(0)):
        migrate(after)
    assert query(CHECK) == [(False,)], "the column is added without a scan of the table"
    migrate(after)
    assert query(CHECK) == [(True,)]


class Interruption:
    """Interrupts a migration after a number of statements that change an index or a column."""

    def __init__(self, statements: int) -> None:
        self.statements = statements

    def __call__(self, execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        result = execute(sql, *args)
        if any(part in str(sql) for part in ("INDEX CONCURRENTLY", "retention_days")):
            self.statements -= 1
            if self.statements < 0:
                raise InterruptedError
        return result
