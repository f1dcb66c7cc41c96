"""Ledger of credits: the only module that writes grants, holds, entries and balances.

Each change locks the account's balance, writes entries and updates the stored balances in one transaction, which
may be part of the caller's (`docs/reference/state-machine.md#credits`). Amounts are whole credits. The database's
clock decides whether a grant has expired; it is read only after the lock is acquired.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime

from django.db import transaction
from django.db.models import Exists, F, FilteredRelation, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Now

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
from billing.portions import Portion, available_portions, spendable, take
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
    fields = ["id", "reason", "note", "remaining", "original", "expires_at"]
    rows = (
        Account.objects.filter(pk=account.pk)
        .annotate(open=FilteredRelation("grants", condition=spendable("grants__")))
        .order_by(F("open__expires_at").asc(nulls_last=True), "open__id")
        .values_list("balance__purchased", "balance__reserved", *(f"open__{field}" for field in fields))
    )
    results = list(rows)
    grants = [OpenGrant(**dict(zip(fields, row[2:], strict=True))) for row in results if row[2] is not None]
    purchased, reserved = results[0][:2] if results else (0, 0)
    return Balances(purchased=purchased or 0, reserved=reserved or 0, grants=grants)


def available_of(accounts: QuerySet[Account]) -> dict[int, int]:
    """Return how many credits new holds can take, by the accounts' ids. One query."""
    found = Account.objects.filter(pk__in=accounts.values("pk")).annotate(
        open=FilteredRelation("grants", condition=spendable("grants__")),
        available=Coalesce("balance__purchased", 0) + Sum("open__remaining", default=0),
    )
    return dict(found.values_list("pk", "available"))


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
def purchase(account: Account, amount: int, *, reason: str) -> None:
    """Add purchased credits, which never expire. Raises InvalidCreditChange."""
    require_amount(amount)
    _require_reason(reason)
    balance = _lock(account)
    _post(balance, [_entry(balance, Portion(grant=None, credits=amount), source=Pocket.OUTSIDE, reason=reason)])


@transaction.atomic
def correct(account: Account, amount: int, *, reason: str) -> None:
    """Add credits to an account, or remove them if `amount` is negative, to correct a mistake.

    Added credits count as purchased. Removed credits come from purchased credits first, then from grants in reverse
    spending order. Raises InsufficientCredits or InvalidCreditChange.
    """
    require_amount(-amount if amount < 0 else amount)
    _require_reason(reason)
    balance = _lock(account)
    if amount > 0:
        entries = [_entry(balance, Portion(grant=None, credits=amount), source=Pocket.OUTSIDE, reason=reason)]
    else:
        portions = take(-amount, list(reversed(available_portions(balance))))
        entries = [_entry(balance, portion, target=Pocket.OUTSIDE, reason=reason) for portion in portions]
    _post(balance, entries)


def hold(account: Account, amount: int, *, job_id: int, least: int | None = None) -> None:
    """Hold `amount` credits for a new job, or all that are available if these are at least `least`. One round trip.

    `least` defaults to `amount`. Raises InsufficientCredits or InvalidCreditChange.
    """
    require_amount(amount)
    required = amount if least is None else least
    request = {"account_id": account.pk, "job_id": job_id, "wanted": amount, "required": required}
    ((available_now, is_held),) = run(SQL["lock_balance"], SQL["hold_credits"], values=request)
    if not is_held:
        raise InsufficientCredits(required_credits=required, available_credits=available_now)


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


def settle(job_id: int, *, spent: int) -> None:
    """Resolve a job's hold: charge `spent` credits and return the rest to their origins. One round trip.

    Unused credits of a grant that has expired in the meantime are lost. Raises HoldError if the job has no open
    hold or the hold is smaller than `spent`.
    """
    if not run(SQL["lock_payer"], SQL["settle_hold"], values={"job_id": job_id, "spent": spent}):
        raise hold_error(job_id, spent=spent)


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


def release(job_id: int) -> None:
    """Resolve a job's hold without charging anything. Raises HoldError."""
    settle(job_id, spent=0)


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
    _post(balance, [_entry(balance, Portion(grant=current, credits=current.remaining), target=Pocket.EXPIRED)])
    return True


def _lock(account: Account) -> Balance:
    """Lock the account's balance and return it; create it if it is missing."""
    rows = Balance.objects.select_for_update(no_key=True).filter(pk=account.pk)
    balance = rows.first()
    if balance is None:
        Balance.objects.bulk_create([Balance(account=account)], ignore_conflicts=True)
        balance = rows.get()
    return balance


def _entry(
    balance: Balance,
    portion: Portion,
    *,
    source: Pocket | None = None,
    target: Pocket | None = None,
    job_id: int | None = None,
    reason: str = "",
) -> Entry:
    """Return an entry that moves a portion; `source` and `target` default to the portion's pocket."""
    return Entry(
        account_id=balance.pk,
        source=source or portion.pocket,
        target=target or portion.pocket,
        credits=portion.credits,
        grant=portion.grant,
        job_id=job_id,
        reason=reason,
    )


def _post(balance: Balance, entries: Iterable[Entry]) -> None:
    """Write entries and update the stored balances of a locked account."""
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
    portion = Portion(grant=created, credits=amount)
    _post(balance, [_entry(balance, portion, source=Pocket.OUTSIDE, reason=created.title)])
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
