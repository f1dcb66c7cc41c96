"""Accounts without effective limits."""

from billing import ledger
from billing.models import Account, Plan
from clients.accounts import default_client, open_account
from clients.audit import SYSTEM
from clients.keys import create_key

NO_LIMIT = 1_000_000_000
LIMITS = ("submissions_per_minute", "submission_bytes_per_minute", "reads_per_minute", "max_active_jobs")


def open_accounts(count: int) -> list[Account]:
    """Open accounts with the plan `bench` and enough credits for every scenario."""
    plan = Plan.objects.create(name="bench", **dict.fromkeys(LIMITS, NO_LIMIT))
    accounts = [open_account(f"bench-{number}", plan=plan) for number in range(count)]
    for account in accounts:
        ledger.correct(account, 10**11, reason="bench")
    return accounts


def open_keys(count: int) -> list[str]:
    """Open accounts; return an API key of each."""
    return [key_of(account) for account in open_accounts(count)]


def key_of(account: Account) -> str:
    """Create a key of an account and return its secret."""
    return create_key(default_client(account), by=SYSTEM)[1]
