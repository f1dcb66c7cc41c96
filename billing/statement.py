"""Statement of an account: its ledger entries and their descriptions."""

from collections.abc import Iterator

from billing.models import Account, Entry, Pocket

ENTRIES_AT_ONCE = 2000
AVAILABLE = (Pocket.PURCHASED, Pocket.GRANT)
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
