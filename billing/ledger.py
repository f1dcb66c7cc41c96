"""Ledger of credits: with `ledger.sql`, the only code that writes grants, holds, entries and balances.

The statements that create a job and that end one include the fragments of `ledger.sql` which hold and settle its
credits. Each change locks the account's balance, writes entries and updates the stored balances in one transaction,
which may be part of the caller's (`docs/reference/state-machine.md#credits`). Amounts are whole credits. The
database's clock decides whether a grant has expired; it is read only after the lock is acquired.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from billing.clock import month_of
from billing.errors import HoldError, InsufficientCredits, InvalidCreditChange
from billing.models import (
    MAX_AMOUNT,
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
from simservice.clocks import database_time
from simservice.ids import next_id
from simservice.postgresql.statements import load, run

SQL = load(__file__)
MAX_REASON_CHARACTERS = 200
# Expired grants whose remaining credits are not booked as expired yet.
EXPIRED = Q(remaining__gt=0, expires_at__lte=Now())


@dataclass(frozen=True, kw_only=True)
class OpenGrant:
    """A grant with credits left to spend."""

    id: int
    reason: GrantReason
    note: str
    remaining: int
    original: int
    expires_at: datetime | None

    @property
    def title(self) -> str:
        """Return the display name: the note, or the label of the reason."""
        return title_of_grant(self.reason, self.note)


@dataclass(frozen=True, kw_only=True)
class Balances:
    """Balances of an account in credits. Reserved credits are not part of the other balances."""

    purchased: int
    reserved: int
    # In spending order: soonest expiry first, grants that never expire last.
    grants: list[OpenGrant]

    @property
    def available(self) -> int:
        """Return how many credits a new hold can take."""
        return self.purchased + sum(grant.remaining for grant in self.grants)


def balances(account: Account) -> Balances:
    """Return the current balances of an account. One query, so the numbers are consistent."""
    rows = run(SQL["read_balances"], values={"account_id": account.pk})
    if not rows:
        return Balances(purchased=0, reserved=0, grants=[])
    *of_grants, (purchased, reserved, *_) = rows
    grants = [
        OpenGrant(id=grant_id, reason=reason, note=note, remaining=left, original=original, expires_at=expires_at)
        for left, _, grant_id, reason, note, original, expires_at in of_grants
    ]
    return Balances(purchased=purchased, reserved=reserved, grants=grants)


def available_of(accounts: QuerySet[Account]) -> dict[int, int]:
    """Return how many credits new holds can take, by the accounts' ids. Two queries."""
    return available_by_id(list(accounts.values_list("pk", flat=True)))


def available_by_id(account_ids: list[int]) -> dict[int, int]:
    """Return how many credits new holds can take, by the accounts' ids. One query."""
    return dict(run(SQL["count_available_credits"], values={"account_ids": account_ids}))


def available(account: Account) -> int:
    """Return how many credits a new hold can take. One query."""
    return balances(account).available


@transaction.atomic
def grant(
    account: Account, amount: int, *, reason: GrantReason, note: str = "", expires_at: datetime | None = None
) -> Grant:
    """Grant credits to an account; they expire at `expires_at`, or never. Raises InvalidCreditChange."""
    return _book_grant(_lock(account), amount, reason=reason, note=note, expires_at=expires_at)


@transaction.atomic
def grant_allowance(account: Account) -> Grant | None:
    """Grant this month's allowance of the plan; return None if there is none or it was granted already.

    Months are in UTC. An allowance expires at the end of its month.
    """
    amount = account.plan.monthly_credits
    if not amount:
        return None
    balance = _lock(account)
    month, end = month_of(database_time())
    if Grant.objects.filter(account=account, allowance_month=month).exists():
        return None
    return _book_grant(balance, amount, reason=GrantReason.ALLOWANCE, expires_at=end, allowance_month=month)


def grant_allowances(limit: int) -> int:
    """Grant this month's missing allowances, at most `limit`; return how many were granted."""
    month, _ = month_of(database_time())
    granted = Grant.objects.filter(account=OuterRef("pk"), allowance_month=month)
    due = Account.objects.filter(~Exists(granted), plan__monthly_credits__gt=0, suspended_at=None)
    accounts = due.select_related("plan").order_by("pk")[:limit]
    return sum(grant_allowance(account) is not None for account in accounts)


@transaction.atomic
def correct(account: Account, amount: int, *, reason: str) -> None:
    """Add credits to an account, or remove them if `amount` is negative, to correct a mistake.

    Added credits count as purchased. Removed credits come from purchased credits first, then from grants in reverse
    spending order. Raises InsufficientCredits or InvalidCreditChange.
    """
    require_amount(-amount if amount < 0 else amount)
    _require_reason(reason)
    balance = _lock(account)
    changes = [(None, amount)] if amount > 0 else list(_removed_from(account, -amount))
    _post(balance, changes, reason=reason)


def _removed_from(account: Account, amount: int) -> Iterator[tuple[Grant | None, int]]:
    """Yield the changes that remove the credits that a locked account would spend last.

    Raises InsufficientCredits.
    """
    current = balances(account)
    if amount > current.available:
        raise InsufficientCredits(required_credits=amount, available_credits=current.available)
    grants = Grant.objects.in_bulk([open_grant.id for open_grant in current.grants])
    in_order = [(grants[each.id], each.remaining) for each in current.grants]
    for grant, free in [(None, current.purchased), *reversed(in_order)]:
        if taken := min(free, amount):
            amount -= taken
            yield grant, -taken


def extend(job_id: int, amount: int) -> None:
    """Add credits to a job's open hold. One round trip.

    Raises InsufficientCredits, HoldError or InvalidCreditChange.
    """
    require_amount(amount)
    rows = run(SQL["lock_payer"], SQL["extend_hold"], values={"job_id": job_id, "amount": amount})
    if not rows:
        raise hold_error(job_id)
    if rows[0][0] < amount:
        raise InsufficientCredits(required_credits=amount, available_credits=rows[0][0])


def held(job_id: int) -> int:
    """Return how many credits a job's open hold has. One query. Raises HoldError."""
    credits_held = Hold.objects.filter(pk=job_id, resolved_at=None).values_list("credits", flat=True).first()
    if credits_held is None:
        raise hold_error(job_id)
    return credits_held


def shrink(job_id: int, *, keep: int) -> None:
    """Return all but `keep` credits of a job's open hold to their origins, unless it has no more. One round trip.

    Those that are spent first are kept. Credits of a grant that has expired expire. Raises InvalidCreditChange.
    """
    require_amount(keep)
    run(SQL["lock_payer"], SQL["shrink_hold"], values={"job_id": job_id, "keep": keep})


def hold_error(job_id: int, *, spent: int = 0) -> HoldError:
    """Return the error that explains why a job's hold could not be changed. At most two queries."""
    refused = Hold.objects.filter(pk=job_id).first()
    if refused is None:
        return HoldError(f"job {job_id} has no hold")
    if refused.resolved_at is not None:
        return HoldError(f"the hold of job {job_id} has been resolved")
    if not Balance.objects.filter(pk=refused.account_id).exists():
        return HoldError(f"account {refused.account_id}, which pays for job {job_id}, has no balance")
    return HoldError(f"{spent} credits cannot be spent of the {refused.credits} held for job {job_id}")


def expire_grants(limit: int) -> int:
    """Book the remaining credits of expired grants as expired, at most `limit` grants; return how many were booked.

    Expired credits cannot be spent even before they are booked. Each grant has its own transaction, so accounts
    do not wait for each other.
    """
    due = Grant.objects.filter(EXPIRED).order_by("expires_at").select_related("account")
    return sum(_expire(expired) for expired in due[:limit])


@transaction.atomic
def _expire(expired: Grant) -> bool:
    """Book the remaining credits of an expired grant as expired; return False if they are booked already."""
    balance = _lock(expired.account)
    current = Grant.objects.filter(EXPIRED, pk=expired.pk).first()
    if current is None:
        return False
    _post(balance, [(current, -current.remaining)], outside=Pocket.EXPIRED)
    return True


def _lock(account: Account) -> Balance:
    """Lock the account's balance and return it; create it if it is missing."""
    rows = Balance.objects.select_for_update(no_key=True).filter(pk=account.pk)
    balance = rows.first()
    if balance is None:
        Balance.objects.bulk_create([Balance(account=account)], ignore_conflicts=True)
        balance = rows.get()
    return balance


def _post(
    balance: Balance,
    changes: Iterable[tuple[Grant | None, int]],
    *,
    outside: Pocket = Pocket.OUTSIDE,
    reason: str = "",
) -> None:
    """Book changes of grants, or of purchased credits if the grant is None, for a locked account."""
    entries, grants = [], []
    for grant, change in changes:
        pocket = Pocket.GRANT if grant else Pocket.PURCHASED
        source, target = (outside, pocket) if change > 0 else (pocket, outside)
        entries.append(
            Entry(
                account_id=balance.pk,
                source=source,
                target=target,
                credits=abs(change),
                grant=grant,
                reason=reason,
            )
        )
        if grant is None:
            balance.purchased += change
        else:
            grant.remaining += change
            grants.append(grant)
    Entry.objects.bulk_create(entries)
    Grant.objects.bulk_update(grants, ["remaining"])
    balance.save(update_fields=["purchased"])


def _book_grant(
    balance: Balance,
    amount: int,
    *,
    reason: GrantReason,
    expires_at: datetime | None,
    note: str = "",
    allowance_month: date | None = None,
) -> Grant:
    """Create a grant for a locked account and book its credits. Raises InvalidCreditChange."""
    require_amount(amount)
    _require_note(note)
    now = database_time()
    if expires_at is not None and expires_at <= now:
        raise InvalidCreditChange("A grant must expire in the future.")
    created = Grant.objects.create(
        id=next_id(),
        account_id=balance.pk,
        reason=reason,
        note=note.strip(),
        original=amount,
        created_at=now,
        expires_at=expires_at,
        allowance_month=allowance_month,
    )
    _post(balance, [(created, amount)], reason=created.title)
    return created


def require_amount(amount: int) -> None:
    """Raise InvalidCreditChange unless `amount` is an integer from 1 to MAX_AMOUNT."""
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise InvalidCreditChange("The number of credits must be an integer.")
    if not 1 <= amount <= MAX_AMOUNT:
        raise InvalidCreditChange(f"The number of credits must be from 1 to {MAX_AMOUNT:,}.")


def _require_reason(reason: str) -> None:
    """Raise InvalidCreditChange if a reason is blank or too long."""
    if not reason.strip() or len(reason) > MAX_REASON_CHARACTERS:
        raise InvalidCreditChange(f"Enter a reason of at most {MAX_REASON_CHARACTERS} characters.")


def _require_note(note: str) -> None:
    """Raise InvalidCreditChange if a note is too long."""
    if len(note) > MAX_REASON_CHARACTERS:
        raise InvalidCreditChange(f"The note must be at most {MAX_REASON_CHARACTERS} characters long.")
