"""The book of credits in words: what an entry means to the account that reads it."""

from billing.models import Entry, Pocket

FREE = (Pocket.PURCHASED, Pocket.GRANT)
SENTENCES = {
    (Pocket.OUTSIDE, Pocket.PURCHASED): "Credits were added: {reason}",
    (Pocket.OUTSIDE, Pocket.GRANT): "Credits were granted: {reason}",
    (Pocket.PURCHASED, Pocket.OUTSIDE): "Credits were taken back: {reason}",
    (Pocket.GRANT, Pocket.OUTSIDE): "Credits of the grant “{grant}” were taken back: {reason}",
    (Pocket.PURCHASED, Pocket.HELD): "Reserved for a job",
    (Pocket.GRANT, Pocket.HELD): "Reserved for a job, from the grant “{grant}”",
    (Pocket.HELD, Pocket.PURCHASED): "Not needed by a job, and given back",
    (Pocket.HELD, Pocket.GRANT): "Not needed by a job, and given back to the grant “{grant}”",
    (Pocket.HELD, Pocket.SPENT): "Spent by a job, of what was reserved",
    (Pocket.HELD, Pocket.EXPIRED): "Not needed by a job, but the grant “{grant}” had expired meanwhile",
    (Pocket.GRANT, Pocket.EXPIRED): "The grant “{grant}” expired",
}


def sentence(entry: Entry) -> str:
    """Return what happened, in a sentence. Reads the entry's grant."""
    words = SENTENCES[Pocket(entry.source), Pocket(entry.target)]
    return words.format(reason=entry.reason, grant=entry.grant.title if entry.grant else "")


def change(entry: Entry) -> int:
    """Return by how much an entry changed what the account could spend."""
    return entry.credits * ((entry.target in FREE) - (entry.source in FREE))
