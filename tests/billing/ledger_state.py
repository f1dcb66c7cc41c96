"""Helpers for tests of the ledger."""

import os
from datetime import timedelta

from django.db.models.functions import Now

from billing import ledger
from billing.models import Account, Grant

# Whether to run the long, thorough variants of the tests.
LONG = bool(os.environ.get("SIMSERVICE_LONG"))
HOUR = timedelta(hours=1)


def state(account: Account) -> tuple[int, int, list[int]]:
    """Return the purchased, the reserved and the remaining credits of each grant; also verify the ledger."""
    assert list(ledger.verify()) == []
    balances = ledger.balances(account)
    return balances.purchased, balances.reserved, [grant.remaining for grant in balances.grants]


def expire_now(grant: Grant) -> None:
    """Make a grant expire now."""
    Grant.objects.filter(pk=grant.pk).update(created_at=Now() - HOUR, expires_at=Now())
