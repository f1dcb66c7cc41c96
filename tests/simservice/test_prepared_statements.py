"""Prepared statements after a change of the tables that they read."""

from collections.abc import Iterator

import pytest
from django.db import NotSupportedError, connection, transaction

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


def test_a_changed_column_fails_an_open_transaction() -> None:
    with pytest.raises(NotSupportedError), transaction.atomic():
        run(READ, values={})
    assert run(READ, values={}) == [("a",)]
