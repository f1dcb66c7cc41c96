"""A pooler between the service and PostgreSQL: `make pgbouncer` runs these tests with PgBouncer, too."""

import os

import pytest
from django.db import connection

from billing.models import Plan
from simservice.operations import doctor
from simservice.operations.doctor import Level
from simservice.postgresql.connections import is_pooled
from simservice.postgresql.statements import run
from tests.factories import PlanFactory
from tests.pgbouncer import POOLED
from tests.statements import traffic

pytestmark = pytest.mark.django_db(transaction=True)
PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%pooled_one%'"


def test_a_pooler_is_recognized() -> None:
    connection.ensure_connection()
    assert is_pooled(connection) == (POOLED in os.environ)


def test_statements_are_prepared_only_on_a_direct_connection() -> None:
    assert run("/* pooled_one */ SELECT %(value)s + 1", values={"value": 1}) == [(2,)]
    with connection.cursor() as cursor:
        cursor.execute(PREPARED)
        assert cursor.fetchone() == (int(POOLED not in os.environ),)


def test_iterators_use_no_cursors_of_postgresql() -> None:
    """Installed packages call `iterator` outside transactions, for example when somebody signs up."""
    PlanFactory.create()
    with traffic() as sent:
        assert len(list(Plan.objects.iterator(1))) == Plan.objects.count()
    assert not [text for text in sent.statements if "DECLARE" in text]


def test_the_limits_of_the_deployment_are_complete() -> None:
    (finding,) = doctor.check_pooler()
    assert finding.level == Level.OK


def test_missing_limits_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "is_pooled", lambda _: True)
    monkeypatch.setattr(doctor, "LIMITS", ("transaction_timeout", "lock_timeout"))
    (finding,) = doctor.check_pooler()
    assert (finding.level, "transaction_timeout." in finding.message) == (Level.WARNING, True)
