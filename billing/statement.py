"""Statement of an account: its ledger entries, and lines that summarize the entries of each job.

The balance on a statement includes reserved credits, so the amounts of the lines add up to it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum

from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from billing.models import Account, Balance, Entry, Grant, Pocket

ENTRIES_AT_ONCE = 2000
AVAILABLE = (Pocket.PURCHASED, Pocket.GRANT)
OWNED = (*AVAILABLE, Pocket.HELD)
# The entries that change the balance, except the charges for jobs. The index `entry_besides_charges` supports it.
BESIDES_CHARGES = Q(job_id=None) | Q(target=Pocket.EXPIRED)
DESCRIPTIONS = {
    (Pocket.OUTSIDE, Pocket.PURCHASED): "Credits added: {reason}",
    (Pocket.OUTSIDE, Pocket.GRANT): "Credits granted: {reason}",
    (Pocket.PURCHASED, Pocket.OUTSIDE): "Credits removed: {reason}",
    (Pocket.GRANT, Pocket.OUTSIDE): "Credits removed from grant “{grant}”: {reason}",
    (Pocket.PURCHASED, Pocket.HELD): "Reserved for job",
    (Pocket.GRANT, Pocket.HELD): "Reserved for job (from grant “{grant}”)",
    (Pocket.HELD, Pocket.PURCHASED): "Unused credits returned",
    (Pocket.HELD, Pocket.GRANT): "Unused credits returned to grant “{grant}”",
    (Pocket.HELD, Pocket.SPENT): "Spent on job",
    (Pocket.HELD, Pocket.EXPIRED): "Unused credits expired with grant “{grant}”",
    (Pocket.GRANT, Pocket.EXPIRED): "Grant “{grant}” expired",
}


def each_entry(account: Account) -> Iterator[Entry]:
    """Yield all entries of an account with their grants, newest first. One query per ENTRIES_AT_ONCE entries."""
    entries = Entry.objects.filter(account=account).select_related("grant").order_by("-pk")
    batch = list(entries[:ENTRIES_AT_ONCE])
    while batch:
        yield from batch
        batch = list(entries.filter(pk__lt=batch[-1].pk)[:ENTRIES_AT_ONCE])


def description(entry: Entry) -> str:
    """Return the description of an entry. Reads the entry's grant."""
    template = DESCRIPTIONS[Pocket(entry.source), Pocket(entry.target)]
    return template.format(reason=entry.reason, grant=entry.grant.title if entry.grant else "")


def change(entry: Entry) -> int:
    """Return the change of the available credits; 0 if credits moved between reserved, spent and expired."""
    return entry.credits * ((entry.target in AVAILABLE) - (entry.source in AVAILABLE))


class Kind(StrEnum):
    """A filter of the lines."""

    ALL = ""
    JOBS = "jobs"
    ADDED = "added"
    REMOVED = "removed"


KINDS: dict[Kind, Q] = {
    Kind.ALL: Q(),
    Kind.JOBS: Q(job_id__isnull=False),
    Kind.ADDED: BESIDES_CHARGES & Q(job_id=None, source=Pocket.OUTSIDE),
    Kind.REMOVED: BESIDES_CHARGES & Q(job_id=None, target__in=[Pocket.OUTSIDE, Pocket.EXPIRED]),
}


@dataclass(frozen=True, kw_only=True)
class Line:
    """An entry that belongs to no job, or all entries of a job.

    `entry` is the newest one. `amount` is the change of the balance, `reserved` what the job still reserves, and
    `expired` what expired with its grant when the job ended.
    """

    entry: Entry
    amount: int
    reserved: int = 0
    expired: int = 0


def lines_of(account: Account, kind: Kind = Kind.ALL) -> QuerySet[Entry]:
    """Return the newest entry of each line of an account's statement, for `lines`."""
    later = Entry.objects.filter(job_id=OuterRef("job_id"), pk__gt=OuterRef("pk"))
    return Entry.objects.filter(~Exists(later), KINDS[kind], account=account).select_related("grant")


def lines(entries: Sequence[Entry]) -> list[Line]:
    """Return the lines of these entries. One query."""
    job_ids = [entry.job_id for entry in entries if entry.job_id is not None]
    moved: defaultdict[int, defaultdict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    if job_ids:
        rows = Entry.objects.filter(job_id__in=job_ids).values_list("job_id", "source", "target")
        for job_id, source, target, amount in rows.annotate(total=Sum("credits")):
            moved[job_id][source, target] = amount
    return [
        Line(entry=entry, amount=balance_change(entry.source, entry.target, entry.credits))
        if entry.job_id is None
        else _line_of_job(entry, moved[entry.job_id])
        for entry in entries
    ]


def _line_of_job(entry: Entry, moved: dict[tuple[str, str], int]) -> Line:
    """Return the line of a job, given the credits that its entries moved, by their pockets."""
    held = sum(amount for (_, target), amount in moved.items() if target == Pocket.HELD)
    released = sum(amount for (source, _), amount in moved.items() if source == Pocket.HELD)
    return Line(
        entry=entry,
        amount=sum(balance_change(*pockets, amount) for pockets, amount in moved.items()),
        reserved=held - released,
        expired=moved.get((Pocket.HELD, Pocket.EXPIRED), 0),
    )


def balance_change(source: str, target: str, amount: int) -> int:
    """Return the change of the balance that moving credits between pockets makes."""
    return amount * ((target in OWNED) - (source in OWNED))


def balance(account: Account) -> int:
    """Return the current balance with the reserved credits, the sum of all lines. Two queries."""
    stored = Balance.objects.filter(pk=account.pk).first()
    left = Grant.objects.filter(account=account, remaining__gt=0).aggregate(total=Sum("remaining", default=0))
    return int(left["total"]) + (stored.purchased + stored.reserved if stored else 0)


def balances_by_day(
    account: Account, *, days: Iterable[date], charges: dict[date, int], now: int
) -> list[tuple[date, int]]:
    """Return the balance at the end of each of the last days, the last one today, given the charges by day.

    `now` is the current balance. One query.
    """
    ordered = sorted(days, reverse=True)
    start = datetime(ordered[-1].year, ordered[-1].month, ordered[-1].day, tzinfo=UTC)
    others = (
        Entry.objects.filter(BESIDES_CHARGES, account=account, at__gte=start)
        .annotate(day=TruncDate("at", tzinfo=UTC))
        .values_list("day", "source", "target")
        .annotate(total=Sum("credits"))
    )
    changes: defaultdict[date, int] = defaultdict(int, {day: -amount for day, amount in charges.items()})
    for day, source, target, amount in others:
        changes[day] += balance_change(source, target, amount)
    ends = []
    for day in ordered:
        ends.append((day, now))
        now -= changes[day]
    return ends[::-1]
