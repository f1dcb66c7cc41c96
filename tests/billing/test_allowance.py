"""Monthly allowances of plans."""

from datetime import UTC, date, datetime, timedelta

import pytest
from django.conf import settings
from django.db.models.functions import Now
from django.utils import timezone

from billing import ledger, tasks
from billing.clock import month_of
from billing.models import Account, Grant, GrantReason
from simservice.celery import app
from tests.billing.ledger_state import expire_now, state
from tests.factories import make_account

pytestmark = pytest.mark.django_db


def account_with_an_old_allowance() -> Account:
    """Return an account whose last allowance was for a month in the past."""
    account = make_account(credits=0, monthly_credits=50)
    expire_now(Grant.objects.get(account=account))
    Grant.objects.filter(account=account).update(allowance_month=date(2020, 1, 1), remaining=0)
    return account


def test_a_new_account_gets_an_allowance_until_the_months_end() -> None:
    account = make_account(credits=0, monthly_credits=50)
    (grant,) = ledger.balances(account).grants
    assert (grant.reason, grant.note, grant.remaining) == ("allowance", "", 50)
    assert grant.expires_at is not None
    assert grant.expires_at - timezone.now() <= timedelta(days=31)
    assert (grant.expires_at.day, grant.expires_at.hour, grant.expires_at.minute) == (1, 0, 0)


def test_a_plan_without_an_allowance_grants_nothing() -> None:
    account = make_account(credits=0)
    assert ledger.grant_allowance(account) is None
    assert state(account) == (0, 0, [])


def test_the_allowance_is_granted_once_a_month() -> None:
    account = make_account(credits=0, monthly_credits=50)
    assert ledger.grant_allowance(account) is None
    tasks.grant_allowances()
    assert state(account) == (0, 0, [50])


def test_allowances_of_a_new_month_are_granted_in_batches() -> None:
    accounts = [account_with_an_old_allowance() for _ in range(3)]
    assert [ledger.grant_allowances(2) for _ in range(3)] == [2, 1, 0]
    assert [ledger.available(account) for account in accounts] == [50, 50, 50]


def test_the_task_skips_suspended_accounts_and_other_plans() -> None:
    make_account(credits=0)
    Account.objects.filter(pk=account_with_an_old_allowance().pk).update(suspended_at=Now())
    tasks.grant_allowances()
    assert not Grant.objects.filter(remaining__gt=0).exists()


def test_the_task_books_expired_grants() -> None:
    account = make_account(credits=0)
    expire_now(ledger.grant(account, 5, reason=GrantReason.GRANT_PROMO, note="a test"))
    tasks.expire_grants()
    assert Grant.objects.get().remaining == 0


def test_both_tasks_are_scheduled() -> None:
    app.loader.import_default_modules()
    scheduled = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    assert {"billing.tasks.expire_grants", "billing.tasks.grant_allowances"} <= scheduled <= set(app.tasks)


@pytest.mark.parametrize(
    ("time", "month", "end"),
    [
        ("2026-12-31T23:59:59+00:00", (2026, 12), (2027, 1)),
        ("2028-02-01T00:00:00+00:00", (2028, 2), (2028, 3)),
        ("2026-05-31T23:30:00-02:00", (2026, 6), (2026, 7)),
    ],
)
def test_months_are_in_utc(time: str, month: tuple[int, int], end: tuple[int, int]) -> None:
    assert month_of(datetime.fromisoformat(time)) == (date(*month, 1), datetime(*end, 1, tzinfo=UTC))
