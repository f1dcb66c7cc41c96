"""A customer of the ledger and of an oracle at once: whatever it does, the two must agree.

The oracle is as simple as it can be: it moves one credit at a time, and knows at every moment how many credits of
which origin are where.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count

from django.db import connection
from django.db.models import F

from billing import ledger
from billing.ledger import HoldError, InsufficientCredits, Refused
from billing.models import Account, Balance, Grant, GrantReason

DAY = timedelta(days=1)
NEVER = datetime.max.replace(tzinfo=UTC)
FREE, SPENT, EXPIRED, OUTSIDE = "free", "spent", "expired", "outside"
JOBS = count(1)

# Where the credits of each origin are, by nothing but the entries.
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
class Source:
    """Where credits come from: a grant, or None for all that was purchased."""

    grant_id: int | None
    expires_at: datetime | None

    @property
    def rank(self) -> tuple[datetime, int]:
        """Sort by the order of spending: soonest expiry first, then the older grant, purchased credits last."""
        return self.expires_at or NEVER, self.grant_id or 2**63

    @property
    def expired(self) -> bool:
        """Tell whether its free credits are lost."""
        return self.expires_at is not None and self.expires_at <= datetime.now(UTC)


class Customer:
    """One account. `done` counts what was asked of the ledger."""

    def __init__(self, account: Account, *, allowance: int = 0) -> None:
        self.account = account
        self.allowance = allowance
        self.purchased = Source(None, None)
        self.sources = [self.purchased]
        self.credits: Counter[tuple[Source, str]] = Counter()
        # All that there ever were; the places of open ones hold credits.
        self.jobs: list[int] = []
        self.first_day = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
        self.done = 0

    # The oracle

    def add(self, source: Source, amount: int) -> None:
        """Take credits from outside."""
        self.credits[source, FREE] += amount
        self.credits[source, OUTSIDE] -= amount

    def move(self, amount: int, source: Source, start: str, end: str) -> None:
        """Move credits of one origin from place to place."""
        self.credits[source, start] -= amount
        self.credits[source, end] += amount

    def move_each(self, amount: int, order: Iterable[Source], start: str, end: str) -> None:
        """Move credits one by one, each of the first origin that has one there."""
        sources = list(order)
        for _ in range(amount):
            first = next(source for source in sources if self.credits[source, start])
            self.move(1, first, start, end)

    def in_order(self) -> list[Source]:
        """Return all origins in the order of spending."""
        return sorted(self.sources, key=lambda source: source.rank)

    def spendable(self) -> list[Source]:
        """Return the origins that new holds take from, in their order."""
        return [source for source in self.in_order() if not source.expired]

    def free(self) -> int:
        """Return what can be spent."""
        return sum(self.credits[source, FREE] for source in self.spendable())

    def held(self, job: int) -> int:
        """Return what is set aside for a job: nothing when its hold was resolved."""
        return sum(self.credits[source, str(job)] for source in self.sources)

    def forfeited(self) -> list[Source]:
        """Return the origins of which something expired and was not booked yet."""
        return [source for source in self.sources if source.expired and self.credits[source, FREE]]

    # What it does

    def pays(self, action: Callable[[], None], *, asked: int) -> bool:
        """Do what takes free credits; return whether it could be done, which it must exactly when they suffice."""
        self.done += 1
        free = self.free()
        try:
            action()
            told = None
        except InsufficientCredits as shortage:
            told = shortage.available
        assert told == (None if asked <= free else free)
        return told is None

    def purchase(self, amount: int) -> None:
        """Buy credits."""
        self.done += 1
        ledger.purchase(self.account, amount, reason="paid")
        self.add(self.purchased, amount)

    def grant(self, amount: int, days: int | None) -> None:
        """Get a grant, for good or until the end of a day, which many grants may share."""
        self.done += 1
        expires_at = self.first_day + days * DAY if days else None
        made = ledger.grant(
            self.account, amount, reason=GrantReason.GRANT_PROMO, note="given", expires_at=expires_at
        )
        self.receive(made)

    def grant_allowance(self) -> None:
        """Get this month's allowance, once."""
        self.done += 1
        made = ledger.grant_allowance(self.account)
        assert (made.original if made else 0) == self.allowance
        self.allowance = 0
        if made:
            self.receive(made)

    def receive(self, made: Grant) -> None:
        """Take note of a grant."""
        source = Source(made.pk, made.expires_at)
        self.sources.append(source)
        self.add(source, made.original)

    def sleep(self) -> None:
        """Let a day pass: every grant is a day nearer to its end."""
        self.done += 1
        Grant.objects.filter(account=self.account).update(
            created_at=F("created_at") - DAY, expires_at=F("expires_at") - DAY
        )
        for source in self.sources:
            if source.expires_at:
                source.expires_at -= DAY

    def correct(self, amount: int) -> None:
        """Have an error put right: credits added, or taken from those that would have been spent last."""
        if amount > 0:
            self.done += 1
            ledger.correct(self.account, amount, reason="an error")
            self.add(self.purchased, amount)
        elif self.pays(lambda: ledger.correct(self.account, amount, reason="an error"), asked=-amount):
            self.move_each(-amount, reversed(self.spendable()), FREE, OUTSIDE)

    def hold(self, amount: int, *, least: int | None = None) -> int:
        """Hold credits for a new job as `ledger.hold` does, and return the job."""
        job = next(JOBS)
        asked = amount if least is None else max(least, min(amount, self.free()))
        if self.pays(lambda: ledger.hold(self.account, amount, least=least, job_id=job), asked=asked):
            self.move_each(asked, self.spendable(), FREE, str(job))
            self.jobs.append(job)
        return job

    def extend(self, job: int, amount: int) -> None:
        """Reserve more for a job."""
        try:
            if self.pays(lambda: ledger.extend(job, amount), asked=amount):
                assert self.held(job)
                self.move_each(amount, self.spendable(), FREE, str(job))
        except HoldError:
            assert not self.held(job)

    def settle(self, job: int, spent: int) -> None:
        """End a job, or try to: its hold may have been resolved, or be too small."""
        self.done += 1
        held = self.held(job)
        try:
            ledger.settle(job, spent=spent) if spent else ledger.release(job)
        except HoldError:
            assert not held or spent > held
            return
        assert held >= max(spent, 1)
        self.move_each(spent, self.in_order(), str(job), SPENT)
        for source in self.sources:
            left = self.credits[source, str(job)]
            self.move(left, source, str(job), EXPIRED if source.expired else FREE)

    def blunder(self, amount: int) -> None:
        """Ask for what nobody can mean."""
        self.done += 1
        try:
            ledger.hold(self.account, amount, job_id=next(JOBS))
        except Refused:
            return
        raise AssertionError(amount)

    def look(self) -> None:
        """See what the account is told."""
        self.done += 1
        found = ledger.balances(self.account)
        grants = [(source.grant_id, self.credits[source, FREE]) for source in self.spendable() if source.grant_id]
        assert [(grant.id, grant.remaining) for grant in found.grants] == [grant for grant in grants if grant[1]]
        assert found.available == self.free()

    # Whether the book agrees

    def compare(self) -> None:
        """Compare the oracle with the entries, for each origin and place, and with the stored balances."""
        with connection.cursor() as cursor:
            cursor.execute(BOOKED, [self.account.pk])
            booked = {(grant, place): int(credits_there) for grant, place, credits_there in cursor.fetchall()}
        known = {(source.grant_id, place): number for (source, place), number in self.credits.items() if number}
        assert booked == known
        self.compare_stored()

    def compare_stored(self) -> None:
        """Compare the oracle with what is stored beside the entries."""
        stored = Balance.objects.filter(account=self.account).values_list("purchased", "reserved").first()
        reserved = sum(self.held(job) for job in self.jobs)
        assert (stored or (0, 0)) == (self.credits[self.purchased, FREE], reserved)
        remaining = dict(Grant.objects.filter(account=self.account).values_list("pk", "remaining"))
        assert remaining == {s.grant_id: self.credits[s, FREE] for s in self.sources if s.grant_id}


def sweep(customers: Iterable[Customer], limit: int) -> None:
    """Book what has expired: a batch, then the rest."""
    due = [(customer, source) for customer in customers for source in customer.forfeited()]
    batch = min(limit, len(due))
    assert ledger.expire_grants(limit) == batch
    assert ledger.expire_grants(10**6) == len(due) - batch
    for customer, source in due:
        customer.done += 1
        customer.move(customer.credits[source, FREE], source, FREE, EXPIRED)
