"""The book of credits: the only module that writes grants, holds, entries and balances (design, section 5).

Every change locks the customer's row first, writes entries, and brings the stored balances up to date, all in one
transaction, which may be part of the caller's. Amounts are whole credits. The database's clock decides what has
expired, and it is asked only after the lock was got.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import cast

from django.db import connection, transaction
from django.db.models import Exists, F, FilteredRelation, OuterRef, Q
from django.db.models.functions import Now

from billing.models import (
    MOST_CREDITS,
    Account,
    Balance,
    Entry,
    Grant,
    GrantReason,
    Hold,
    Pocket,
    title_of_grant,
)
from billing.verification import verify as verify
from simservice.ids import next_id

MAX_REASON = 200
ENTRIES_AT_ONCE = 2000
# Grants that have expired, of which something is still to be booked as such.
EXPIRED = Q(remaining__gt=0, expires_at__lte=Now())


class InsufficientCredits(Exception):
    """The account has fewer credits than are asked for; `available` says how many."""

    def __init__(self, available: int) -> None:
        super().__init__(f"Only {available} credits are available.")
        self.available = available


class Refused(ValueError):
    """An amount, a reason or a time that cannot be booked; the message is a sentence for whoever asked."""


class HoldError(Exception):
    """The program resolves or extends a hold that is not there or not open: a bug, not a race."""


@dataclass(frozen=True, kw_only=True)
class OpenGrant:
    """A grant of which something can still be spent."""

    id: int
    reason: GrantReason
    note: str
    remaining: int
    original: int
    expires_at: datetime | None

    @property
    def title(self) -> str:
        """Return the grant's name for people."""
        return title_of_grant(self.reason, self.note)


@dataclass(frozen=True, kw_only=True)
class Balances:
    """What an account has, in credits. What is reserved has left the other two already."""

    purchased: int
    reserved: int
    # Soonest expiry first, those without one last.
    grants: list[OpenGrant]

    @property
    def available(self) -> int:
        """Return what a new hold may take at most."""
        return self.purchased + sum(grant.remaining for grant in self.grants)


@dataclass(kw_only=True)
class Part:
    """Credits of one origin: a grant, or None for purchased ones."""

    grant: Grant | None
    credits: int

    @property
    def pocket(self) -> Pocket:
        """Return the pocket that such credits lie in while they are free."""
        return Pocket.GRANT if self.grant else Pocket.PURCHASED


def balances(account: Account) -> Balances:
    """Return what the account has at this moment. One query, so that the numbers belong together."""
    fields = ["id", "reason", "note", "remaining", "original", "expires_at"]
    rows = (
        Account.objects.filter(pk=account.pk)
        .annotate(open=FilteredRelation("grants", condition=spendable("grants__")))
        .order_by(F("open__expires_at").asc(nulls_last=True), "open__id")
        .values_list("balance__purchased", "balance__reserved", *(f"open__{field}" for field in fields))
    )
    found = list(rows)
    grants = [OpenGrant(**dict(zip(fields, row[2:], strict=True))) for row in found if row[2] is not None]
    purchased, reserved = found[0][:2] if found else (0, 0)
    return Balances(purchased=purchased or 0, reserved=reserved or 0, grants=grants)


def available(account: Account) -> int:
    """Return how many credits a hold may take at this moment. One query."""
    return balances(account).available


def each_entry(account: Account) -> Iterator[Entry]:
    """Yield all entries of an account with their grants, the newest first, read a piece at a time."""
    entries = Entry.objects.filter(account=account).select_related("grant").order_by("-pk")
    piece = list(entries[:ENTRIES_AT_ONCE])
    while piece:
        yield from piece
        piece = list(entries.filter(pk__lt=piece[-1].pk)[:ENTRIES_AT_ONCE])


@transaction.atomic
def grant(
    account: Account, amount: int, *, reason: GrantReason, note: str = "", expires_at: datetime | None = None
) -> Grant:
    """Give an account credits, for good or until a time. Raises Refused."""
    return book_grant(lock(account), amount, reason=reason, note=note, expires_at=expires_at)


@transaction.atomic
def grant_allowance(account: Account) -> Grant | None:
    """Grant this month's allowance of the account's plan, unless it has none or was granted before.

    Months are those of UTC; an allowance expires when its month ends. Safe to call at any time by anybody.
    """
    amount = account.plan.monthly_credits
    if not amount:
        return None
    balance = lock(account)
    month, end = month_of(database_time())
    if Grant.objects.filter(account=account, allowance_month=month).exists():
        return None
    return book_grant(balance, amount, reason=GrantReason.ALLOWANCE, expires_at=end, allowance_month=month)


def grant_allowances(limit: int) -> int:
    """Grant this month's allowance to up to `limit` accounts that lack it; return how many were granted."""
    month, _ = month_of(database_time())
    granted = Grant.objects.filter(account=OuterRef("pk"), allowance_month=month)
    due = Account.objects.filter(~Exists(granted), plan__monthly_credits__gt=0, suspended_at=None)
    accounts = due.select_related("plan").order_by("pk")[:limit]
    return sum(grant_allowance(account) is not None for account in accounts)


@transaction.atomic
def purchase(account: Account, amount: int, *, reason: str) -> None:
    """Give an account credits that never expire, because it paid for them. Raises Refused."""
    require_amount(amount)
    require_reason(reason)
    balance = lock(account)
    post(balance, [move(balance, Part(grant=None, credits=amount), source=Pocket.OUTSIDE, reason=reason)])


@transaction.atomic
def correct(account: Account, amount: int, *, reason: str) -> None:
    """Add credits to an account, or take them away (negative), to put right what was booked wrongly.

    What is added counts as purchased. What is taken away comes from purchased credits first, then from the
    grants that would have been spent last. Raises InsufficientCredits, or Refused.
    """
    require_amount(-amount if amount < 0 else amount)
    require_reason(reason)
    balance = lock(account)
    if amount > 0:
        entries = [move(balance, Part(grant=None, credits=amount), source=Pocket.OUTSIDE, reason=reason)]
    else:
        parts = take(-amount, list(reversed(free_parts(balance))))
        entries = [move(balance, part, target=Pocket.OUTSIDE, reason=reason) for part in parts]
    post(balance, entries)


@transaction.atomic
def hold(account: Account, amount: int, *, job_id: int, least: int | None = None) -> None:
    """Hold credits for a new job: `amount`, or if the account has less, all it has, but at least `least`.

    `least` defaults to `amount`. Raises InsufficientCredits or Refused. At most six statements and a savepoint,
    however many grants the credits come from.
    """
    require_amount(amount)
    balance = lock(account)
    free = free_parts(balance)
    held = amount if least is None else max(least, min(amount, total_of(free)))
    parts = take(held, free)
    Hold.objects.create(job_id=job_id, account_id=balance.pk, credits=held)
    post(balance, [move(balance, part, target=Pocket.HELD, job_id=job_id) for part in parts])


@transaction.atomic
def extend(job_id: int, amount: int) -> None:
    """Set further credits aside for a job that has an open hold.

    Raises InsufficientCredits, and nothing has changed then; HoldError; or Refused.
    """
    require_amount(amount)
    balance, found = open_hold(job_id)
    parts = take(amount, free_parts(balance))
    found.credits += amount
    found.save(update_fields=["credits"])
    post(balance, [move(balance, part, target=Pocket.HELD, job_id=job_id) for part in parts])


@transaction.atomic
def settle(job_id: int, *, spent: int) -> None:
    """Resolve a job's hold: `spent` credits are gone, the rest goes back to where it came from.

    What came from a grant that expired meanwhile is forfeited. Raises HoldError when there is no such open hold
    or it holds less. At most seven statements and a savepoint.
    """
    balance, found = open_hold(job_id)
    if not 0 <= spent <= found.credits:
        raise HoldError(f"{spent} credits cannot be spent of the {found.credits} held for job {job_id}")
    entries = []
    left = spent
    for part, home in held_parts(job_id):
        used = min(left, part.credits)
        left -= used
        for amount, target in ((used, Pocket.SPENT), (part.credits - used, home)):
            if amount:
                resolved = Part(grant=part.grant, credits=amount)
                entries.append(move(balance, resolved, source=Pocket.HELD, target=target, job_id=job_id))
    Hold.objects.filter(pk=job_id).update(spent=spent, resolved_at=Now())
    post(balance, entries)


def release(job_id: int) -> None:
    """Resolve a job's hold with nothing spent. Raises HoldError."""
    settle(job_id, spent=0)


def expire_grants(limit: int) -> int:
    """Book what is left of up to `limit` expired grants as expired; return how many grants that were.

    Nothing depends on it but the book: expired credits cannot be spent before it ran either. Each grant has a
    transaction of its own, so that no customer waits for another.
    """
    due = Grant.objects.filter(EXPIRED).order_by("expires_at").select_related("account")
    return sum(expire(found) for found in due[:limit])


@transaction.atomic
def expire(found: Grant) -> bool:
    """Book what is left of an expired grant as expired; False when somebody else was first."""
    balance = lock(found.account)
    fresh = Grant.objects.filter(EXPIRED, pk=found.pk).first()
    if fresh is None:
        return False
    post(balance, [move(balance, Part(grant=fresh, credits=fresh.remaining), target=Pocket.EXPIRED)])
    return True


# What the doors above are made of


def lock(account: Account) -> Balance:
    """Lock the customer's row and return it; the first time, make it."""
    rows = Balance.objects.select_for_update(no_key=True).filter(pk=account.pk)
    found = rows.first()
    if found is None:
        Balance.objects.bulk_create([Balance(account=account)], ignore_conflicts=True)
        found = rows.get()
    return found


def open_hold(job_id: int) -> tuple[Balance, Hold]:
    """Lock the row of the customer whose job it is; return it with the job's open hold. Raises HoldError."""
    owner = Hold.objects.filter(pk=job_id).values("account_id")
    balance = Balance.objects.select_for_update(no_key=True).filter(pk__in=owner).first()
    if balance is None:
        raise HoldError(f"job {job_id} has no hold")
    found = Hold.objects.get(pk=job_id)
    if found.resolved_at is not None:
        raise HoldError(f"the hold of job {job_id} has been resolved")
    return balance, found


def spendable(prefix: str = "") -> Q:
    """Return the condition that something of a grant can still be spent; `prefix` leads to the grant."""
    unexpired = Q(**{f"{prefix}expires_at": None}) | Q(**{f"{prefix}expires_at__gt": Now()})
    return Q(**{f"{prefix}remaining__gt": 0}) & unexpired


def free_parts(balance: Balance) -> list[Part]:
    """Return what a locked customer can spend, in spending order: soonest expiry first, purchased credits last.

    The order is the contract's (section 7).
    """
    grants = Grant.objects.filter(spendable(), account_id=balance.pk)
    in_order = grants.order_by(F("expires_at").asc(nulls_last=True), "id")
    parts = [Part(grant=found, credits=found.remaining) for found in in_order]
    return [*parts, Part(grant=None, credits=balance.purchased)]


def total_of(parts: Iterable[Part]) -> int:
    """Return the sum of the parts' credits."""
    return sum(part.credits for part in parts)


def take(amount: int, parts: Sequence[Part]) -> list[Part]:
    """Return the first parts, the last one cut, that make up an amount. Raises InsufficientCredits."""
    free = total_of(parts)
    if amount > free:
        raise InsufficientCredits(free)
    taken = []
    left = amount
    for part in parts:
        used = min(left, part.credits)
        left -= used
        if used:
            taken.append(Part(grant=part.grant, credits=used))
    return taken


def held_parts(job_id: int) -> list[tuple[Part, Pocket]]:
    """Return what an open hold is made of, in spending order, each with the pocket that what is unused goes to."""
    entries = (
        Entry.objects.filter(job_id=job_id, target=Pocket.HELD)
        .select_related("grant")
        .annotate(expired=Q(grant__expires_at__lte=Now()))
        .order_by(F("grant__expires_at").asc(nulls_last=True), F("grant_id").asc(nulls_last=True))
    )
    parts: dict[int | None, tuple[Part, Pocket]] = {}
    for entry in entries:
        part = Part(grant=entry.grant, credits=0)
        home = Pocket.EXPIRED if entry.expired else part.pocket
        parts.setdefault(entry.grant_id, (part, home))[0].credits += entry.credits
    return list(parts.values())


def move(
    balance: Balance,
    part: Part,
    *,
    source: Pocket | None = None,
    target: Pocket | None = None,
    job_id: int | None = None,
    reason: str = "",
) -> Entry:
    """Return the entry that moves a part; a side that is not named is the part's own pocket."""
    return Entry(
        account_id=balance.pk,
        source=source or part.pocket,
        target=target or part.pocket,
        credits=part.credits,
        grant=part.grant,
        job_id=job_id,
        reason=reason,
    )


def post(balance: Balance, entries: Iterable[Entry]) -> None:
    """Write entries and bring a locked customer's stored balances up to date."""
    written = list(entries)
    grants = {}
    for entry in written:
        for pocket, change in ((entry.source, -entry.credits), (entry.target, entry.credits)):
            if pocket == Pocket.PURCHASED:
                balance.purchased += change
            elif pocket == Pocket.HELD:
                balance.reserved += change
            elif pocket == Pocket.GRANT and entry.grant:
                entry.grant.remaining += change
                grants[entry.grant.pk] = entry.grant
    Entry.objects.bulk_create(written)
    Grant.objects.bulk_update(grants.values(), ["remaining"])
    balance.save(update_fields=["purchased", "reserved"])


def book_grant(
    balance: Balance,
    amount: int,
    *,
    reason: GrantReason,
    expires_at: datetime | None,
    note: str = "",
    allowance_month: date | None = None,
) -> Grant:
    """Insert a grant of a locked customer and book its credits. Raises Refused."""
    require_amount(amount)
    require_note(note)
    now = database_time()
    if expires_at is not None and expires_at <= now:
        raise Refused("A grant must expire in the future.")
    made = Grant.objects.create(
        id=next_id(),
        account_id=balance.pk,
        reason=reason,
        note=note.strip(),
        original=amount,
        created_at=now,
        expires_at=expires_at,
        allowance_month=allowance_month,
    )
    post(balance, [move(balance, Part(grant=made, credits=amount), source=Pocket.OUTSIDE, reason=made.title)])
    return made


def require_amount(amount: int) -> None:
    """Raise Refused unless `amount` is a positive whole number that anybody can mean."""
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise Refused("Credits are whole numbers.")
    if not 1 <= amount <= MOST_CREDITS:
        raise Refused(f"The number of credits must be from 1 to {MOST_CREDITS}.")


def require_reason(reason: str) -> None:
    """Raise Refused unless somebody can later read why."""
    if not reason.strip() or len(reason) > MAX_REASON:
        raise Refused(f"A reason of at most {MAX_REASON} characters must be given.")


def require_note(note: str) -> None:
    """Raise Refused if a note is too long."""
    if len(note) > MAX_REASON:
        raise Refused(f"A note can have at most {MAX_REASON} characters.")


def database_time() -> datetime:
    """Return the time by the database's clock. One query."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone()
    return cast(datetime, now)


def month_of(time: datetime) -> tuple[date, datetime]:
    """Return the first day of a time's month in UTC, and the moment that the month ends."""
    first = time.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + timedelta(days=32)).replace(day=1)
    return first.date(), following
