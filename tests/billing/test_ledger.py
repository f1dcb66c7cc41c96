"""Ledger operations: spending order, returns, expiry and rejected changes."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models import ProtectedError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing import ledger
from billing.errors import HoldError, InsufficientCredits, InvalidCreditChange
from billing.models import Account, Entry, Grant, GrantReason, Hold
from jobs.enums import MoveResult
from tests.billing import door
from tests.billing.ledger_state import expire_now, state
from tests.factories import make_account

pytestmark = pytest.mark.django_db
SOON = timedelta(days=1)
LATER = timedelta(days=9)


@pytest.fixture
def account() -> Account:
    """Return an account without credits."""
    return make_account(credits=0)


def give(account: Account, credits: int, expires_in: timedelta | None = None) -> Grant:  # noqa: A002
    """Grant credits that expire after some time."""
    expires_at = timezone.now() + expires_in if expires_in else None
    return ledger.grant(account, credits, reason=GrantReason.GRANT_PROMO, note="a test", expires_at=expires_at)


def test_a_new_account_has_no_credits(account: Account) -> None:
    assert state(account) == (0, 0, [])
    assert ledger.available(account) == 0


def test_grants_are_spent_by_expiry_before_purchased_credits(account: Account) -> None:
    ledger.correct(account, 100, reason="paid")
    never, later, soon = give(account, 10), give(account, 10, LATER), give(account, 10, SOON)
    assert [grant.id for grant in ledger.balances(account).grants] == [soon.pk, later.pk, never.pk]
    door.hold(account, 35, job_id=1)
    assert state(account) == (95, 35, [])
    door.settle(1, spent=15)
    assert state(account) == (100, 0, [5, 10])


def test_a_grant_without_expiry_is_spent_after_expiring_grants(account: Account) -> None:
    give(account, 10)
    give(account, 10, SOON)
    door.hold(account, 10, job_id=1)
    assert [grant.expires_at for grant in ledger.balances(account).grants] == [None]


def test_an_extended_hold_returns_credits_to_their_origins(account: Account) -> None:
    give(account, 10, LATER)
    ledger.correct(account, 10, reason="paid")
    door.hold(account, 8, job_id=1)
    ledger.extend(1, 7)
    assert state(account) == (5, 15, [])
    door.settle(1, spent=3)
    assert state(account) == (10, 0, [7])


def test_a_hold_spends_by_expiry_not_by_order_of_holding(account: Account) -> None:
    later = give(account, 10, LATER)
    door.hold(account, 10, job_id=1)
    give(account, 10, SOON)
    ledger.extend(1, 10)
    door.settle(1, spent=10)
    assert [grant.id for grant in ledger.balances(account).grants] == [later.pk]


def test_unused_credits_of_a_grant_that_expired_are_lost(account: Account) -> None:
    grant = give(account, 10, SOON)
    ledger.correct(account, 10, reason="paid")
    door.hold(account, 15, job_id=1)
    expire_now(grant)
    door.settle(1, spent=4)
    assert state(account) == (10, 0, [])
    moves = Entry.objects.filter(grant=grant, source="held").values_list("target", "credits")
    assert sorted(moves) == [("expired", 6), ("spent", 4)]


def test_an_expired_grant_cannot_be_spent_before_it_is_booked(account: Account) -> None:
    expire_now(give(account, 10, SOON))
    assert ledger.available(account) == 0
    with pytest.raises(InsufficientCredits):
        door.hold(account, 1, job_id=1)


def test_expired_grants_are_booked_once_and_in_batches(account: Account) -> None:
    expired = [give(account, 10, SOON) for _ in range(3)]
    give(account, 5, SOON)
    for grant in expired:
        expire_now(grant)
    assert [ledger.expire_grants(2) for _ in range(3)] == [2, 1, 0]
    assert state(account) == (0, 0, [5])
    assert Entry.objects.filter(target="expired").count() == 3


def test_release_returns_all_credits(account: Account) -> None:
    give(account, 10, SOON)
    ledger.correct(account, 10, reason="paid")
    door.hold(account, 20, job_id=1)
    door.settle(1)
    assert state(account) == (10, 0, [10])


def test_a_shortage_reports_available_credits_and_holds_nothing(account: Account) -> None:
    give(account, 10, SOON)
    ledger.correct(account, 20, reason="paid")
    with pytest.raises(InsufficientCredits) as shortage:
        door.hold(account, 31, job_id=1)
    assert shortage.value.available_credits == 30
    assert state(account) == (20, 0, [10])
    assert not Hold.objects.exists()


@pytest.mark.parametrize(("amount", "least", "held"), [(50, 10, 30), (30, 30, 30), (20, 10, 20), (50, 30, 30)])
def test_a_hold_with_a_minimum_takes_what_is_available(
    account: Account, amount: int, least: int, held: int
) -> None:
    give(account, 10, SOON)
    ledger.correct(account, 20, reason="paid")
    door.hold(account, amount, least=least, job_id=1)
    assert Hold.objects.get().credits == held
    assert state(account)[1] == held


def test_a_hold_below_its_minimum_fails(account: Account) -> None:
    ledger.correct(account, 9, reason="paid")
    with pytest.raises(InsufficientCredits) as shortage:
        door.hold(account, 50, least=10, job_id=1)
    assert shortage.value.available_credits == 9
    assert state(account) == (9, 0, [])


def test_a_failed_extension_does_not_change_the_hold(account: Account) -> None:
    ledger.correct(account, 20, reason="paid")
    door.hold(account, 15, job_id=1)
    with pytest.raises(InsufficientCredits) as shortage:
        ledger.extend(1, 6)
    assert shortage.value.available_credits == 5
    assert Hold.objects.get(pk=1).credits == 15


def test_a_shortage_does_not_abort_the_callers_transaction(account: Account) -> None:
    with transaction.atomic():
        with pytest.raises(InsufficientCredits):
            door.hold(account, 1, job_id=1)
        ledger.correct(account, 5, reason="paid")
    assert state(account) == (5, 0, [])


def test_a_hold_is_resolved_only_once(account: Account) -> None:
    ledger.correct(account, 20, reason="paid")
    door.hold(account, 20, job_id=1)
    assert door.settle(1, spent=5) is MoveResult.DONE
    assert door.settle(1, spent=5) is MoveResult.TAKEN
    with pytest.raises(HoldError, match="has been resolved"):
        ledger.extend(1, 1)
    assert state(account) == (15, 0, [])


@pytest.mark.parametrize("spent", [-1, 21])
def test_settling_more_than_the_hold_fails(account: Account, spent: int) -> None:
    ledger.correct(account, 100, reason="paid")
    door.hold(account, 20, job_id=1)
    with pytest.raises(HoldError, match="cannot be spent"):
        door.settle(1, spent=spent)
    assert state(account) == (80, 20, [])


def test_a_job_without_a_hold_raises_an_error() -> None:
    with pytest.raises(HoldError, match="job 7 has no hold"):
        ledger.extend(7, 1)


def test_a_correction_removes_credits_in_reverse_spending_order(account: Account) -> None:
    soon = give(account, 10, SOON)
    give(account, 10)
    ledger.correct(account, 5, reason="a lost payment")
    assert state(account) == (5, 0, [10, 10])
    ledger.correct(account, -17, reason="granted twice")
    assert [(grant.id, grant.remaining) for grant in ledger.balances(account).grants] == [(soon.pk, 8)]
    assert set(Entry.objects.filter(target="outside").values_list("reason", flat=True)) == {"granted twice"}


def test_a_correction_cannot_make_a_balance_negative(account: Account) -> None:
    ledger.correct(account, 10, reason="paid")
    door.hold(account, 4, job_id=1)
    with pytest.raises(InsufficientCredits, match=r"Only 6 credits are available\."):
        ledger.correct(account, -7, reason="too much")
    assert state(account) == (6, 4, [])


@pytest.mark.parametrize("amount", [0, -5, 1.5, True, 10**12 + 1, 10**30], ids=str)
@pytest.mark.parametrize("operation", ["grant", "correct", "extend"])
def test_invalid_amounts_are_rejected(account: Account, operation: str, amount: int) -> None:
    calls: dict[str, Callable[[], object]] = {
        "grant": lambda: ledger.grant(account, amount, reason=GrantReason.GRANT_PROMO, note="a test"),
        "correct": lambda: ledger.correct(account, amount if amount != -5 else 0, reason="a test"),
        "extend": lambda: ledger.extend(1, amount),
    }
    with pytest.raises(InvalidCreditChange, match=r"\.$"):
        calls[operation]()
    assert not Entry.objects.exists()


@pytest.mark.parametrize("reason", ["", "  ", "x" * 201], ids=["empty", "blank", "long"])
def test_corrections_require_a_reason(account: Account, reason: str) -> None:
    with pytest.raises(InvalidCreditChange, match="Enter a reason"):
        ledger.correct(account, 5, reason=reason)
    assert not Entry.objects.exists()


@pytest.mark.parametrize(("note", "title"), [("Sorry", "Sorry"), (" ", "Beta"), ("", "Beta")])
def test_the_title_of_a_grant_is_its_note_or_its_reason(account: Account, note: str, title: str) -> None:
    grant = ledger.grant(account, 5, reason=GrantReason.GRANT_BETA, note=note)
    assert (grant.title, Entry.objects.get().reason) == (title, title)


def test_a_note_that_is_too_long_is_rejected(account: Account) -> None:
    with pytest.raises(InvalidCreditChange, match="at most 200 characters"):
        ledger.grant(account, 5, reason=GrantReason.GRANT_BETA, note="x" * 201)


def test_a_grant_that_expires_in_the_past_is_rejected(account: Account) -> None:
    with pytest.raises(InvalidCreditChange, match="future"):
        ledger.grant(account, 5, reason=GrantReason.GRANT_PROMO, note="late", expires_at=timezone.now() - SOON)
    assert not Grant.objects.exists()


def test_an_account_with_entries_cannot_be_deleted(account: Account) -> None:
    ledger.correct(account, 5, reason="paid")
    account.clients.all().delete()
    with pytest.raises(ProtectedError):
        account.delete()


def statements(operation: Callable[[], object]) -> int:
    """Return the number of SQL statements of a call, without savepoints."""
    with CaptureQueriesContext(connection) as queries:
        operation()
    return sum("SAVEPOINT" not in query["sql"] for query in queries)


@pytest.mark.parametrize("grants", [0, 1, 20])
def test_query_counts_do_not_depend_on_the_number_of_grants(account: Account, grants: int) -> None:
    for day in range(grants):
        give(account, 10, SOON + timedelta(days=day))
    ledger.correct(account, 10, reason="paid")
    assert statements(lambda: door.hold(account, 10 * grants + 5, job_id=1)) <= 6
    assert statements(lambda: ledger.extend(1, 5)) <= 7
    assert statements(lambda: door.settle(1, spent=3)) <= 7
    assert statements(lambda: ledger.balances(account)) == 1
