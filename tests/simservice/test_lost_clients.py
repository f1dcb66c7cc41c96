"""Statements of processes that die or lose their connection."""

import pytest
from django.db import connection

from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

STATEMENT = "SELECT pg_sleep(60)"
IS_RUNNING = "SELECT count(*) FROM pg_stat_activity WHERE query = %s AND state = 'active'"


def is_running() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(IS_RUNNING, [STATEMENT])
        return bool(cursor.fetchone()[0])


def wait_until_running(*, expected: bool) -> None:
    """Wait until PostgreSQL executes the statement, or no longer does."""
    # PostgreSQL looks for lost clients every few seconds; the statement itself takes a minute.
    wait_until(lambda: is_running() == expected, seconds=30)


def test_a_statement_ends_soon_after_its_client_is_gone() -> None:
    connection.ensure_connection()
    lost = connection.copy()
    lost.ensure_connection()
    protocol = lost.connection.pgconn
    protocol.send_query(STATEMENT.encode())
    protocol.flush()
    wait_until_running(expected=True)
    # Closes the socket, as the kernel does when a process dies. PostgreSQL reads the end only between statements.
    lost.close()
    wait_until_running(expected=False)
