"""Concurrent changes of credits, each on its own database connection."""

import pytest

from billing import ledger
from billing.errors import InsufficientCredits
from billing.models import Entry, Grant, GrantReason, Hold
from jobs.enums import MoveResult
from tests.billing import door
from tests.billing.ledger_state import LONG, expire_now, state
from tests.concurrency import at_once
from tests.factories import make_account

pytestmark = pytest.mark.django_db(transaction=True)
ATTEMPTS = 1_000 if LONG else 100


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_only_one_of_two_concurrent_holds_gets_the_last_credits() -> None:
    account = make_account(credits=0)
    ids = iter(range(1, 2 * ATTEMPTS + 1))
    for attempt in range(1, ATTEMPTS + 1):
        ledger.correct(account, 5, reason="a test")
        available: list[int] = []

        def reserve() -> None:
            try:
                door.hold(account, 5, job_id=next(ids))
            except InsufficientCredits as shortage:
                available.append(shortage.available_credits)  # noqa: B023 - the threads end within the loop

        at_once(2, reserve)
        assert available == [0]
        assert Hold.objects.count() == attempt
    assert state(account) == (0, 5 * ATTEMPTS, [])


def test_concurrent_settlements_of_a_job_are_booked_once() -> None:
    account = make_account(credits=10)
    door.hold(account, 10, job_id=1)
    settled: list[MoveResult] = []
    at_once(6, lambda: settled.append(door.settle(1, spent=4)))
    assert sorted(result.name for result in settled) == ["DONE", *["TAKEN"] * 5]
    assert state(account) == (6, 0, [])


def test_concurrent_sweeps_book_each_expired_grant_once() -> None:
    account = make_account(credits=0)
    for _ in range(20):
        expire_now(ledger.grant(account, 5, reason=GrantReason.GRANT_PROMO, note="a test"))
    booked: list[int] = []
    at_once(4, lambda: booked.append(ledger.expire_grants(100)))
    assert sum(booked) == 20
    assert Entry.objects.filter(target="expired").count() == 20
    assert state(account) == (0, 0, [])


def test_concurrent_first_purchases_of_an_account_all_count() -> None:
    account = make_account(credits=0)
    at_once(4, lambda: ledger.correct(account, 5, reason="a test"))
    assert state(account) == (20, 0, [])


def test_concurrent_tasks_grant_each_allowance_once() -> None:
    accounts = [make_account(credits=1) for _ in range(20)]
    for account in accounts:
        account.plan.monthly_credits = 50
        account.plan.save()
    granted: list[int] = []
    at_once(4, lambda: granted.append(ledger.grant_allowances(50)))
    assert sum(granted) == 20
    assert [state(account) for account in accounts] == [(1, 0, [50])] * 20
    assert Grant.objects.count() == 20
