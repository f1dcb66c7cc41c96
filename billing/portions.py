"""Portions of an account's credits by origin, in the order in which they are spent.

The order: grants by expiry, soonest first, then purchased credits (`docs/reference/limits.md#billing`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import F, Q
from django.db.models.functions import Now

from billing.errors import InsufficientCredits
from billing.models import Balance, Grant, Pocket


@dataclass(kw_only=True)
class Portion:
    """Credits of one origin: a grant, or None for purchased credits."""

    grant: Grant | None
    credits: int

    @property
    def pocket(self) -> Pocket:
        """Return the pocket of these credits while they are available."""
        return Pocket.GRANT if self.grant else Pocket.PURCHASED


def spendable(prefix: str = "") -> Q:
    """Return the condition for grants with credits left to spend; `prefix` is the lookup path to the grant."""
    unexpired = Q(**{f"{prefix}expires_at": None}) | Q(**{f"{prefix}expires_at__gt": Now()})
    return Q(**{f"{prefix}remaining__gt": 0}) & unexpired


def available_portions(balance: Balance) -> list[Portion]:
    """Return the available credits of a locked account in spending order. One query."""
    grants = Grant.objects.filter(spendable(), account_id=balance.pk)
    in_order = grants.order_by(F("expires_at").asc(nulls_last=True), "id")
    portions = [Portion(grant=grant, credits=grant.remaining) for grant in in_order]
    return [*portions, Portion(grant=None, credits=balance.purchased)]


def total(portions: Iterable[Portion]) -> int:
    """Return the sum of the credits."""
    return sum(portion.credits for portion in portions)


def take(amount: int, portions: Sequence[Portion]) -> list[Portion]:
    """Return the first portions that add up to `amount`; the last one may be split. Raises InsufficientCredits."""
    available = total(portions)
    if amount > available:
        raise InsufficientCredits(required_credits=amount, available_credits=available)
    taken = []
    left = amount
    for portion in portions:
        used = min(left, portion.credits)
        left -= used
        if used:
            taken.append(Portion(grant=portion.grant, credits=used))
    return taken
