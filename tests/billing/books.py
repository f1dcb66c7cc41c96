"""Looking at the book, and moving its clock, for tests."""

import os
from datetime import timedelta

from django.db.models.functions import Now

from billing import ledger
from billing.models import Account, Grant

# Whether the tests take the time that they need to be thorough.
LONG = bool(os.environ.get("SIMSERVICE_LONG"))
HOUR = timedelta(hours=1)


def state(account: Account) -> tuple[int, int, list[int]]:
    """Return what is purchased, what is reserved, and what remains of each open grant, and prove the book."""
    assert list(ledger.verify()) == []
    found = ledger.balances(account)
    return found.purchased, found.reserved, [grant.remaining for grant in found.grants]


def expire_now(grant: Grant) -> None:
    """Let a grant have expired this moment."""
    Grant.objects.filter(pk=grant.pk).update(created_at=Now() - HOUR, expires_at=Now())
