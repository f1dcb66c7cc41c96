"""Prepared statements after a change of the tables that they read."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import (
    DataError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    connection,
    transaction,
)

from simservice.postgresql import statements
from simservice.postgresql.statements import run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.direct("poolers keep no prepared statements")]
READ = "SELECT label FROM changed"


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


def test_a_rollback_prepares_the_statements_again() -> None:
    with pytest.raises(NotSupportedError), transaction.atomic():
        run(READ, values={})
    with transaction.atomic():
        assert run(READ, values={}) == [("a",)]


def test_other_errors_keep_the_connection() -> None:
    execute("DROP TABLE changed; CREATE TABLE changed (label integer)")
    before = connection.connection
    with pytest.raises(ProgrammingError):
        run("SELECT missing FROM changed", values={})
    assert connection.connection is before


def test_values_of_all_sizes_share_a_prepared_statement() -> None:
    values: list[dict[str, Any]] = [
        {"number": 1, "data": b"1", "id": uuid4()},
        {"number": 2**40, "data": None, "id": None},
        {"number": None, "data": b"", "id": None},
    ]
    for each in values:
        sizes = "SELECT %(number)s::bigint, %(data)s::bytea, %(id)s::uuid AS sizes"
        assert run(sizes, values=each) == [tuple(each.values())]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%sizes'")
        assert cursor.fetchone() == (1,)


def test_the_statements_of_django_are_not_prepared() -> None:
    with pytest.raises(DataError):
        run("SELECT 1 / %(zero)s::integer", values={"zero": 0})
    assert connection.connection.prepare_threshold is None


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows with each statement; all fail, on a connection that Django has not checked."""
    executed: list[str] = []

    def fail(*run: str, **_: object) -> list[statements.Row]:
        executed.extend(run)
        raise OperationalError

    connection.ensure_connection()
    wrapper: Any = connection
    wrapper.health_check_done = False
    monkeypatch.setattr(statements, "run", fail)
    return executed


@pytest.mark.parametrize(("usable", "count"), [(True, 1), (False, 2)])
def test_a_first_read_is_repeated_only_on_a_new_connection(
    failing: list[str],
    monkeypatch: pytest.MonkeyPatch,
    usable: bool,  # noqa: FBT001
    count: int,
) -> None:
    monkeypatch.setattr(connection, "is_usable", lambda: usable)
    with pytest.raises(OperationalError):
        statements.read_first("SELECT 1", values={})
    assert len(failing) == count


def test_a_first_read_is_not_repeated_in_a_transaction(failing: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper: Any = connection
    with transaction.atomic():
        wrapper.health_check_done = False
        monkeypatch.setattr(connection, "is_usable", lambda: False)
        with pytest.raises(OperationalError):
            statements.read_first("SELECT 1", values={})
    assert len(failing) == 1
