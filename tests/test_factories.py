"""The quick statements of the factories insert the rows that the service would."""

from typing import Any

import pytest
from django.db import models

from billing import ledger
from billing.models import Account, Balance, Entry
from clients.accounts import open_account
from clients.models import Client
from jobs.models import JobEvent, JobProfile
from tests.billing import door
from tests.factories import PROFILE, PlanFactory, make_account, make_job

pytestmark = pytest.mark.django_db
# Values that differ in every row
OWN = {"id", "pk", "name", "plan_id", "account_id", "created_at", "at"}


def rows_of(account: Account) -> dict[type[models.Model], list[dict[str, Any]]]:
    """Return the rows of an account without the values that always differ."""
    chosen: list[models.QuerySet[Any]] = [
        Account.objects.filter(pk=account.pk),
        *(model._default_manager.filter(account=account) for model in (Client, Balance, Entry)),
    ]
    return {
        rows.model: [{k: v for k, v in row.items() if k not in OWN} for row in rows.order_by("pk").values()]
        for rows in chosen
    }


def test_an_account_has_the_rows_of_an_opened_one() -> None:
    plan = PlanFactory.create()
    opened = open_account(f"account-{plan.pk}", plan=plan)
    ledger.correct(opened, 5, reason="for a test")
    made = make_account(credits=5)
    assert rows_of(made) == rows_of(opened)
    assert [model.__name__ for model, rows in rows_of(made).items() if len(rows) != 1] == []
    assert (made.name, made.clients.get().name) == (f"account-{made.plan.pk}", opened.clients.get().name)


def test_a_plan_with_an_allowance_grants_it() -> None:
    made = make_account(credits=5, monthly_credits=7)
    assert ledger.available(made) == 12


def test_a_job_is_paid_by_a_purchase() -> None:
    job = make_job(held_credits=3)
    rows = rows_of(job.account)
    other = make_account()
    ledger.correct(other, 3, reason="for a test")
    door.hold(other, 3, job_id=job.pk + 1)
    for row in rows[Entry] + (expected := rows_of(other))[Entry]:
        row.pop("job_id")
    assert rows == expected
    assert list(JobEvent.objects.filter(job=job).values_list("to_status", "attempt")) == [("pending", 0)]
    assert JobProfile.objects.get(job=job).text == PROFILE
