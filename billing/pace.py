"""How long credits last at the current pace of spending."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from billing.ledger import Balances

# Spending is averaged over this many days before today.
PERIOD_DAYS = 28
# Spending on fewer days says too little about the days to come.
MIN_DAYS_WITH_CHARGES = 7
MAX_DAYS = 365


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The average spending of the last `days` days, and the day on which it will have used up the credits.

    `last_day` is None if the credits last longer than MAX_DAYS.
    """

    days: int
    per_day: float
    last_day: date | None


def pace_of(charges: Sequence[tuple[date, int]], balances: Balances, *, today: date) -> Pace | None:
    """Return the pace of the charges by day, None if there are too few. Today, which is not over, does not count.

    The first day with a charge begins the period, so that a new account is not averaged over days before it.
    """
    start = today - timedelta(days=PERIOD_DAYS)
    before = [(day, amount) for day, amount in charges if start <= day < today]
    charged = [day for day, amount in before if amount]
    if len(charged) < MIN_DAYS_WITH_CHARGES or not balances.available:
        return None
    days = (today - charged[0]).days
    per_day = sum(amount for _, amount in before) / days
    return Pace(days=days, per_day=per_day, last_day=_last_day(balances, per_day=per_day, today=today))


def _last_day(balances: Balances, *, per_day: float, today: date) -> date | None:
    """Return the last day on which the credits suffice, spent in the ledger's order until each grant expires."""
    left = [(grant.expires_at and grant.expires_at.date(), float(grant.remaining)) for grant in balances.grants]
    left.append((None, float(balances.purchased)))
    for number in range(1, MAX_DAYS + 1):
        day, wanted = today + timedelta(days=number), per_day
        remaining = []
        for end, amount in left:
            if end is not None and end < day:
                continue
            spent = min(amount, wanted)
            wanted -= spent
            remaining.append((end, amount - spent))
        if wanted > 0:
            return day - timedelta(days=1)
        left = remaining
    return None
