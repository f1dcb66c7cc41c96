"""Prepared statements after a change of the tables that they read."""

from collections.abc import Iterator

import pytest
from django.db import NotSupportedError, ProgrammingError, close_old_connections, connection, transaction

from simservice.statements import Statement, run

pytestmark = pytest.mark.django_db(transaction=True)
READ = Statement("read_changed", "SELECT label FROM changed")


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.fixture(autouse=True)
def _changed() -> Iterator[None]:
    """A table whose column has another type than when its statement was prepared."""
    execute("CREATE TABLE changed AS SELECT 'a'::varchar(9) AS label")
    assert run(READ, values={}) == [("a",)]
    execute("ALTER TABLE changed ALTER label TYPE varchar(12)")
    yield
    execute("DROP TABLE changed")
    connection.close()


def test_a_changed_column_costs_a_new_connection() -> None:
    assert run(READ, values={}) == [("a",)]
    assert run(READ, values={}) == [("a",)]


@pytest.mark.parametrize("command", ["DISCARD ALL", "DEALLOCATE ALL"])
def test_deallocated_statements_are_prepared_again(command: str) -> None:
    assert run(READ, values={}) == [("a",)]
    execute(command)
    assert run(READ, values={}) == [("a",)]


def test_a_failed_transaction_drops_its_connection() -> None:
    for _ in range(2):
        with pytest.raises(NotSupportedError), transaction.atomic():
            run(READ, values={})
    close_old_connections()
    with transaction.atomic():
        assert run(READ, values={}) == [("a",)]


def test_other_errors_keep_the_connection() -> None:
    execute("DROP TABLE changed; CREATE TABLE changed (label integer)")
    before = connection.connection
    with pytest.raises(ProgrammingError):
        run(Statement("read_missing", "SELECT missing FROM changed"), values={})
    assert connection.connection is before


def test_a_changed_column_fails_an_open_transaction() -> None:
    with pytest.raises(NotSupportedError), transaction.atomic():
        run(READ, values={})
    assert run(READ, values={}) == [("a",)]
