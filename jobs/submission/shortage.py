"""Accounts that cannot pay for a job, found before one is submitted."""

from dataclasses import dataclass
from datetime import date

from billing import ledger, prices
from billing.clock import month_of
from billing.ledger import Balances
from billing.models import Account
from jobs import api_mode
from simservice.clocks import database_time


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """Credits that an account has and needs for a job, and where more can come from.

    `affordable_seconds` is the highest runtime limit that the account can pay for. `allowance` is granted at
    `allowance_on`; it is 0 for a plan without one.
    """

    available: int
    required: int
    reserved: int
    affordable_seconds: int
    allowance: int
    allowance_on: date


def find(account: Account, *, balances: Balances | None = None) -> Shortage | None:
    """Return the shortage of an account that has too few credits for a job with default options, or None.

    `balances` are those of the account if they are known already. One query, or two with a shortage.
    """
    plan, balances = account.plan, balances or ledger.balances(account)
    seconds = api_mode.current().default_runtime_for(plan) or 1
    required = min(seconds * plan.credits_per_second, plan.max_credits_per_job)
    if balances.available >= required:
        return None
    return Shortage(
        available=balances.available,
        required=required,
        reserved=balances.reserved,
        affordable_seconds=prices.seconds_for(balances.available, credits_per_second=plan.credits_per_second),
        allowance=plan.monthly_credits,
        allowance_on=month_of(database_time())[1].date(),
    )
