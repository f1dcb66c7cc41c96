"""Two at once, each on a connection of its own."""

import pytest

from billing import ledger
from billing.ledger import HoldError, InsufficientCredits
from billing.models import Entry, Grant, GrantReason, Hold
from tests.billing.books import LONG, expire_now, state
from tests.concurrency import at_once
from tests.factories import make_account

pytestmark = pytest.mark.django_db(transaction=True)
TRIES = 1_000 if LONG else 100


@pytest.mark.timeout(600)
def test_of_two_that_race_for_the_last_credits_exactly_one_wins() -> None:
    account = make_account(credits=0)
    ids = iter(range(1, 2 * TRIES + 1))
    for tried in range(1, TRIES + 1):
        ledger.purchase(account, 5, reason="a try")
        lost: list[int] = []

        def reserve() -> None:
            try:
                ledger.hold(account, 5, job_id=next(ids))
            except InsufficientCredits as shortage:
                lost.append(shortage.available)  # noqa: B023 - the threads end within the loop

        at_once(2, reserve)
        assert lost == [0]
        assert Hold.objects.count() == tried
    assert state(account) == (0, 5 * TRIES, [])


def test_of_many_settlements_of_one_job_one_is_booked() -> None:
    account = make_account(credits=10)
    ledger.hold(account, 10, job_id=1)
    refused: list[HoldError] = []

    def settle() -> None:
        try:
            ledger.settle(1, spent=4)
        except HoldError as error:
            refused.append(error)

    at_once(6, settle)
    assert len(refused) == 5
    assert state(account) == (6, 0, [])


def test_two_sweeps_at_once_book_each_expired_grant_once() -> None:
    account = make_account(credits=0)
    for _ in range(20):
        expire_now(ledger.grant(account, 5, reason=GrantReason.GRANT_PROMO, note="a test"))
    booked: list[int] = []
    at_once(4, lambda: booked.append(ledger.expire_grants(100)))
    assert sum(booked) == 20
    assert Entry.objects.filter(target="expired").count() == 20
    assert state(account) == (0, 0, [])


def test_the_first_credits_of_an_account_may_come_from_two_at_once() -> None:
    account = make_account(credits=0)
    at_once(4, lambda: ledger.purchase(account, 5, reason="a test"))
    assert state(account) == (20, 0, [])


def test_an_allowance_is_granted_once_however_many_grant_it() -> None:
    accounts = [make_account(credits=1) for _ in range(20)]
    for account in accounts:
        account.plan.monthly_credits = 50
        account.plan.save()
    granted: list[int] = []
    at_once(4, lambda: granted.append(ledger.grant_allowances(50)))
    assert sum(granted) == 20
    assert [state(account) for account in accounts] == [(1, 0, [50])] * 20
    assert Grant.objects.count() == 20
