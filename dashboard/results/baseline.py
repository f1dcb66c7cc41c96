"""Differences of entries from one of them, the baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.results.rankings import Entry, differs

GAIN, LOSS, EVEN = "gain", "loss", "even"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The entry that others are compared with."""

    entry: Entry

    def kind_of(self, entry: Entry) -> str:
        """Return GAIN, LOSS, or EVEN for a difference within the margin of error; empty for the baseline itself."""
        if entry is self.entry:
            return ""
        if not differs(entry, self.entry):
            return EVEN
        return GAIN if entry.mean > self.entry.mean else LOSS

    def change(self, value: float) -> float:
        """Return by how many percent a value exceeds the baseline's mean, which must not be zero."""
        return (value - self.entry.mean) / abs(self.entry.mean) * 100

    def change_of(self, entry: Entry) -> float | None:
        """Return by how many percent an entry is better; None for the baseline, and if its mean is zero."""
        return None if entry is self.entry or not self.entry.mean else self.change(entry.mean)


class Compared:
    """Entries, best first, and the kind of each compared with the chosen one, or else with the profile's own.

    The place of each entry is its number. `own` is not one of them.
    """

    def __init__(self, entries: Sequence[Entry], own: Entry, *, base: int) -> None:
        self.entries, self.own = entries, own
        self.baseline = Baseline(entries[base - 1] if 0 < base <= len(entries) else own)
        self.kinds = [self.baseline.kind_of(entry) for entry in entries]


def interval(entry: Entry) -> tuple[float, float]:
    """Return the 95 % confidence interval of an entry's mean."""
    return entry.mean - entry.error, entry.mean + entry.error
