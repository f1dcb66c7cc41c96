"""A customer whose operations run on the ledger and on an oracle, which must agree.

The oracle is simple: it moves one credit at a time and counts the credits of each origin in each place.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count

from django.db import connection
from django.db.models import F

from billing import ledger
from billing.errors import HoldError, InsufficientCredits, InvalidCreditChange
from billing.models import Account, Balance, Grant, GrantReason
from tests.billing import door

DAY = timedelta(days=1)
NEVER = datetime.max.replace(tzinfo=UTC)
FREE, SPENT, EXPIRED, OUTSIDE = "free", "spent", "expired", "outside"
JOBS = count(1)

# The credits of each origin in each place, computed from the entries only.
BOOKED = """
SELECT grant_id, place, sum(credits) FROM (
    SELECT account_id, grant_id, -credits AS credits,
        CASE source WHEN 'grant' THEN 'free' WHEN 'purchased' THEN 'free' WHEN 'held' THEN job_id::text
        ELSE source END AS place
    FROM billing_entry
    UNION ALL
    SELECT account_id, grant_id, credits,
        CASE target WHEN 'grant' THEN 'free' WHEN 'purchased' THEN 'free' WHEN 'held' THEN job_id::text
        ELSE target END
    FROM billing_entry
) AS sides WHERE account_id = %s GROUP BY grant_id, place HAVING sum(credits) <> 0
"""


@dataclass(eq=False)
class Origin:
    """Origin of credits: a grant, or None for purchased credits."""

    grant_id: int | None
    expires_at: datetime | None

    @property
    def rank(self) -> tuple[datetime, int]:
        """Return the sort key of the spending order: soonest expiry, then oldest grant, then purchased credits."""
        return self.expires_at or NEVER, self.grant_id or 2**63

    @property
    def expired(self) -> bool:
        """Return whether free credits of this origin are lost."""
        return self.expires_at is not None and self.expires_at <= datetime.now(UTC)


class Customer:
    """One account. `done` counts operations on the ledger."""

    def __init__(self, account: Account, *, allowance: int = 0) -> None:
        self.account = account
        self.allowance = allowance
        self.purchased = Origin(None, None)
        self.origins = [self.purchased]
        self.credits: Counter[tuple[Origin, str]] = Counter()
        # All jobs; the places of jobs with open holds contain credits.
        self.jobs: list[int] = []
        self.first_day = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
        self.done = 0

    # The oracle

    def add(self, origin: Origin, amount: int) -> None:
        """Add credits from outside."""
        self.credits[origin, FREE] += amount
        self.credits[origin, OUTSIDE] -= amount

    def move(self, amount: int, origin: Origin, start: str, end: str) -> None:
        """Move credits of one origin from place to place."""
        self.credits[origin, start] -= amount
        self.credits[origin, end] += amount

    def move_each(self, amount: int, order: Iterable[Origin], start: str, end: str) -> None:
        """Move credits one by one, each from the first origin that has one in `start`."""
        origins = list(order)
        for _ in range(amount):
            first = next(origin for origin in origins if self.credits[origin, start])
            self.move(1, first, start, end)

    def in_order(self) -> list[Origin]:
        """Return all origins in spending order."""
        return sorted(self.origins, key=lambda origin: origin.rank)

    def spendable(self) -> list[Origin]:
        """Return the origins that new holds take from, in spending order."""
        return [origin for origin in self.in_order() if not origin.expired]

    def free(self) -> int:
        """Return the number of available credits."""
        return sum(self.credits[origin, FREE] for origin in self.spendable())

    def held_credits(self, job: int) -> int:
        """Return the credits held for a job; 0 after its hold was resolved."""
        return sum(self.credits[origin, str(job)] for origin in self.origins)

    def forfeited(self) -> list[Origin]:
        """Return the expired origins whose credits are not booked as expired yet."""
        return [origin for origin in self.origins if origin.expired and self.credits[origin, FREE]]

    # Operations

    def attempt(self, action: Callable[[], None], *, needed: int) -> bool:
        """Run an action that takes free credits; it must succeed exactly if they suffice. Return whether it did."""
        self.done += 1
        free = self.free()
        try:
            action()
            reported = None
        except InsufficientCredits as shortage:
            reported = shortage.available_credits
        assert reported == (None if needed <= free else free)
        return reported is None

    def purchase(self, amount: int) -> None:
        """Buy credits."""
        self.done += 1
        ledger.correct(self.account, amount, reason="paid")
        self.add(self.purchased, amount)

    def grant(self, amount: int, days: int | None) -> None:
        """Receive a grant that expires after some days, or never. Many grants can expire at the same time."""
        self.done += 1
        expires_at = self.first_day + days * DAY if days else None
        grant = ledger.grant(
            self.account, amount, reason=GrantReason.GRANT_PROMO, note="given", expires_at=expires_at
        )
        self.add_grant(grant)

    def grant_allowance(self) -> None:
        """Receive this month's allowance, once."""
        self.done += 1
        grant = ledger.grant_allowance(self.account)
        assert (grant.original if grant else 0) == self.allowance
        self.allowance = 0
        if grant:
            self.add_grant(grant)

    def add_grant(self, grant: Grant) -> None:
        """Add a grant to the oracle."""
        origin = Origin(grant.pk, grant.expires_at)
        self.origins.append(origin)
        self.add(origin, grant.original)

    def let_a_day_pass(self) -> None:
        """Let a day pass by moving all expiry times."""
        self.done += 1
        Grant.objects.filter(account=self.account).update(
            created_at=F("created_at") - DAY, expires_at=F("expires_at") - DAY
        )
        for origin in self.origins:
            if origin.expires_at:
                origin.expires_at -= DAY

    def correct(self, amount: int) -> None:
        """Correct the balance: add credits, or remove those that would be spent last."""
        if amount > 0:
            self.done += 1
            ledger.correct(self.account, amount, reason="an error")
            self.add(self.purchased, amount)
        elif self.attempt(lambda: ledger.correct(self.account, amount, reason="an error"), needed=-amount):
            self.move_each(-amount, reversed(self.spendable()), FREE, OUTSIDE)

    def hold(self, amount: int, *, least: int | None = None) -> int:
        """Hold credits for a new job as `door.hold` does, and return the job."""
        job = next(JOBS)
        needed = amount if least is None else max(least, min(amount, self.free()))
        if self.attempt(lambda: door.hold(self.account, amount, least=least, job_id=job), needed=needed):
            self.move_each(needed, self.spendable(), FREE, str(job))
            self.jobs.append(job)
        return job

    def extend(self, job: int, amount: int) -> None:
        """Extend the hold of a job."""
        try:
            if self.attempt(lambda: ledger.extend(job, amount), needed=amount):
                assert self.held_credits(job)
                self.move_each(amount, self.spendable(), FREE, str(job))
        except HoldError:
            assert not self.held_credits(job)

    def shrink(self, job: int, keep: int) -> None:
        """Shrink a job's hold to `keep` credits. A smaller hold, or a resolved one, stays as it is."""
        self.done += 1
        ledger.shrink(job, keep=keep)
        for origin in self.in_order():
            kept = min(keep, self.credits[origin, str(job)])
            keep -= kept
            self.move(self.credits[origin, str(job)] - kept, origin, str(job), EXPIRED if origin.expired else FREE)

    def settle(self, job: int, spent: int) -> None:
        """Settle a job; this fails if its hold was resolved or is too small."""
        self.done += 1
        reserved = self.held_credits(job)
        try:
            is_settled = door.settle(job, spent=spent)
        except HoldError:
            assert not reserved or spent > reserved
            return
        if not is_settled:
            assert not reserved
            return
        assert reserved >= max(spent, 1)
        self.move_each(spent, self.in_order(), str(job), SPENT)
        for origin in self.origins:
            remaining = self.credits[origin, str(job)]
            self.move(remaining, origin, str(job), EXPIRED if origin.expired else FREE)

    def request_invalid_amount(self, amount: int) -> None:
        """Request an extension by an invalid amount."""
        self.done += 1
        try:
            ledger.extend(next(JOBS), amount)
        except InvalidCreditChange:
            return
        raise AssertionError(amount)

    def check_balances(self) -> None:
        """Compare the balances that the ledger reports."""
        self.done += 1
        balances = ledger.balances(self.account)
        grants = [(origin.grant_id, self.credits[origin, FREE]) for origin in self.spendable() if origin.grant_id]
        assert [(grant.id, grant.remaining) for grant in balances.grants] == [grant for grant in grants if grant[1]]
        assert balances.available == self.free()

    # Comparison with the ledger

    def compare(self) -> None:
        """Compare the oracle with the entries and with the stored balances."""
        with connection.cursor() as cursor:
            cursor.execute(BOOKED, [self.account.pk])
            booked = {(grant, place): int(credits_there) for grant, place, credits_there in cursor.fetchall()}
        known = {(origin.grant_id, place): number for (origin, place), number in self.credits.items() if number}
        assert booked == known
        self.compare_stored()

    def compare_stored(self) -> None:
        """Compare the oracle with the stored balances."""
        stored = Balance.objects.filter(account=self.account).values_list("purchased", "reserved").first()
        reserved = sum(self.held_credits(job) for job in self.jobs)
        assert (stored or (0, 0)) == (self.credits[self.purchased, FREE], reserved)
        remaining = dict(Grant.objects.filter(account=self.account).values_list("pk", "remaining"))
        assert remaining == {s.grant_id: self.credits[s, FREE] for s in self.origins if s.grant_id}


def sweep(customers: Iterable[Customer], limit: int) -> None:
    """Book expired grants: one batch, then the rest."""
    due = [(customer, origin) for customer in customers for origin in customer.forfeited()]
    batch = min(limit, len(due))
    assert ledger.expire_grants(limit) == batch
    assert ledger.expire_grants(10**6) == len(due) - batch
    for customer, origin in due:
        customer.done += 1
        customer.move(customer.credits[origin, FREE], origin, FREE, EXPIRED)
