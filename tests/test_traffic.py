"""The counter of statements and round trips, which other tests use."""

import pytest
from django.db import connection, transaction
from psycopg import Cursor

from tests.statements import traffic

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_transaction_shows_its_begin_and_commit() -> None:
    with traffic() as recorded, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute('SELECT 1 AS "a",\n %s', ["x\n\tB\t5\t"])
    assert recorded.statements == ["BEGIN", "SELECT 1 AS \"a\",\n 'x\n\tB\t5\t'", "COMMIT"]
    assert recorded.round_trips == 3


def test_pipelined_statements_share_a_round_trip() -> None:
    with traffic() as recorded, connection.connection.pipeline():
        for number in range(3):
            connection.cursor().execute("SELECT %s", [number])
    assert (recorded.statements, recorded.round_trips) == (["SELECT 0", "SELECT 1", "SELECT 2"], 1)


def test_a_prepared_statement_is_counted_each_time() -> None:
    connection.ensure_connection()
    with traffic() as recorded:
        for _ in range(2):
            Cursor(connection.connection).execute("SELECT 5", prepare=True)
    assert recorded.statements == ["SELECT 5", "SELECT 5"]
