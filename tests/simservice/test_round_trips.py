"""Several statements in one round trip: their errors, their order, and a PostgreSQL that does not respond."""

from collections.abc import Generator
from datetime import datetime

import pytest
from django.db import DataError, OperationalError, close_old_connections, connection, transaction
from django.test.utils import CaptureQueriesContext
from psycopg.waiting import Ready, Wait

from billing.models import Account
from simservice.clocks import database_time
from simservice.postgresql import base
from simservice.postgresql.statements import run
from tests.concurrency import while_locked
from tests.factories import make_account
from tests.statements import traffic

pytestmark = pytest.mark.django_db(transaction=True)

LOCK = "SELECT FROM billing_account WHERE id = %(id)s FOR UPDATE"
RENAME = "UPDATE billing_account SET name = 'x' WHERE id = %(id)s RETURNING name"
DIVISION = "SELECT 1 / %(zero)s::integer"


def test_statements_share_a_round_trip() -> None:
    account = make_account()
    with traffic() as sent:
        assert run(LOCK, RENAME, values={"id": account.pk}) == [("x",)]
    assert (len(sent.statements), sent.round_trips) == (2, 1)


def test_the_log_of_queries_has_each_statement_with_its_values() -> None:
    account = make_account()
    with CaptureQueriesContext(connection) as captured:
        run(LOCK, RENAME, values={"id": account.pk})
    assert [query["sql"] for query in captured] == [sql % {"id": account.pk} for sql in (LOCK, RENAME)]


def test_an_error_undoes_the_earlier_statements() -> None:
    account = make_account()
    with pytest.raises(DataError):
        run(RENAME, DIVISION, LOCK, values={"id": account.pk, "zero": 0})
    assert Account.objects.get(pk=account.pk).name == account.name
    assert run(LOCK, RENAME, values={"id": account.pk}) == [("x",)]


def test_an_error_fails_the_transaction_of_the_caller() -> None:
    account = make_account()
    with transaction.atomic():
        with pytest.raises(DataError):
            run(RENAME, DIVISION, values={"id": account.pk, "zero": 0})
        with pytest.raises(transaction.TransactionManagementError):
            Account.objects.exists()
    assert Account.objects.get(pk=account.pk).name == account.name


def test_a_transaction_of_the_caller_undoes_all_statements() -> None:
    account = make_account()
    with transaction.atomic():
        assert run(LOCK, RENAME, values={"id": account.pk}) == [("x",)]
        transaction.set_rollback(True)
    assert Account.objects.get(pk=account.pk).name == account.name


def test_a_statement_begins_after_the_wait_of_an_earlier_one() -> None:
    account = make_account()
    changed: list[datetime] = []
    read: list[tuple[str, datetime]] = []

    def change() -> None:
        Account.objects.filter(pk=account.pk).update(name="changed")
        changed.append(database_time())

    def wait() -> None:
        now = "SELECT name, statement_timestamp() FROM billing_account WHERE id = %(id)s"
        read.extend(run(LOCK, now, values={"id": account.pk}))

    while_locked("billing_account WHERE id = %s", [account.pk], change=change, move=wait)
    ((name, at),) = read
    assert name == "changed"
    assert at > changed[0]


@pytest.mark.direct("a pooler keeps the connection to PostgreSQL")
def test_a_postgresql_that_does_not_respond_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    account = make_account()
    run(LOCK, values={"id": account.pk})
    monkeypatch.setattr(base.limits, "deadline_seconds", 0.5)
    with pytest.raises(OperationalError, match="does not respond"):
        run(LOCK, "SELECT pg_sleep(3)", values={"id": account.pk})
    assert connection.connection.closed
    close_old_connections()
    assert run(LOCK, RENAME, values={"id": account.pk}) == [("x",)]


def test_a_message_that_was_sent_is_not_a_response() -> None:
    connection.ensure_connection()
    base.outage.record_failure(OperationalError())

    def send_and_receive() -> Generator[Wait, Ready, None]:
        assert (yield Wait.RW) == Ready.W
        assert (yield Wait.R) == Ready.R
        yield Wait.R

    waiting = base._bounded(send_and_receive(), connection.connection, lambda _: False)
    next(waiting)
    waiting.send(Ready.W)
    assert base.outage.is_known()
    waiting.send(Ready.R)
    assert not base.outage.is_known()
