"""Accounts without a balance row: new ones, which never had credits, and damaged ones."""

from collections.abc import Callable

import pytest

from billing import ledger
from billing.errors import HoldError, InsufficientCredits
from billing.models import Account, Balance, Entry, GrantReason, Hold
from tests.billing import door
from tests.factories import make_account

pytestmark = pytest.mark.django_db


def damaged_account() -> Account:
    """Make an account with a hold and a grant whose balance is missing."""
    account = make_account(credits=100)
    ledger.grant(account, 50, reason=GrantReason.PROMO)
    door.hold(account, 20, job_id=1)
    Balance.objects.filter(pk=account.pk).delete()
    return account


def test_a_new_account_has_no_credits_to_hold() -> None:
    account = make_account(credits=0)
    assert not Balance.objects.filter(pk=account.pk).exists()
    with pytest.raises(InsufficientCredits) as raised:
        door.hold(account, 5, job_id=1)
    assert (raised.value.available_credits, Hold.objects.count(), Entry.objects.count()) == (0, 0, 0)


def test_the_first_purchase_creates_the_balance() -> None:
    account = make_account(credits=0)
    ledger.correct(account, 10, reason="first")
    door.hold(account, 4, job_id=1)
    door.settle(1, spent=3)
    assert (ledger.available(account), list(ledger.verify())) == (7, [])


def test_nothing_is_held_without_a_balance() -> None:
    account = damaged_account()
    before = Entry.objects.count()
    with pytest.raises(InsufficientCredits):
        door.hold(account, 5, job_id=2)
    assert (Hold.objects.filter(pk=2).count(), Entry.objects.count()) == (0, before)


def test_nothing_is_settled_or_extended_without_a_balance() -> None:
    account = damaged_account()
    before = Entry.objects.count()
    changes: list[Callable[[], object]] = [
        lambda: door.settle(1, spent=5),
        lambda: door.settle(1),
        lambda: ledger.extend(1, 5),
    ]
    for change in changes:
        with pytest.raises(HoldError, match=f"account {account.pk}, which pays for job 1, has no balance"):
            change()
    hold = Hold.objects.get(pk=1)
    assert (hold.credits, hold.resolved_at, Entry.objects.count()) == (20, None, before)
