"""The order of claims within a lane, as far as the history proves it.

Of two jobs of one lane and branch, the one that was submitted first is claimed first. A claim skips a job whose row
is locked at that moment, which leaves no trace. So a job counts as skipped only if several later jobs were claimed
while it waited, over a longer time than a transaction can keep a lock.
"""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from jobs.history.rows import WAITING, History, JobRow
from jobs.history.specification import Impossible, moment

# The rule, for reports and `docs/reference/history-rules.md`
RULE = "claims_are_in_order"
SENTENCE = "Of two jobs of a lane and branch, the one submitted first is claimed first, as far as the rows prove."
# Twice the longest time that an idle transaction keeps its locks (`simservice/settings.py`).
LOCK_SECONDS = 30.0
MIN_SKIPS = 3
# Beyond this many waiting jobs of a lane, the oldest are not compared.
MAX_WAITING = 100_000


@dataclass(order=True)
class Wait:
    """The first wait of a job, until a time, and the first and the last claim of a later job in this time."""

    until: float
    job: JobRow = field(compare=False)
    skips: int = field(default=0, compare=False)
    first: float = field(default=inf, compare=False)
    last: float = field(default=-inf, compare=False)

    def skip(self, at: float) -> None:
        """Record the claim of a later job."""
        self.skips, self.first, self.last = self.skips + 1, min(self.first, at), max(self.last, at)


class ClaimOrder:
    """Compares the first claims of jobs, which are added in the order of their ids.

    Keeps those that still waited when the last one was submitted.
    """

    def __init__(self, *, lock_seconds: float = LOCK_SECONDS) -> None:
        self.lock_seconds = lock_seconds
        self._waits: dict[tuple[int, str], list[Wait]] = defaultdict(list)

    def add(self, history: History, *, now: float) -> Iterator[Impossible]:
        """Add a job, and yield the earlier ones that were skipped, once each. `now` is in Unix seconds."""
        job, claim = history.job, history.claims.get(1)
        waits = self._waits[job.priority, job.git_branch]
        del waits[: bisect_right(waits, job.created_at, key=until)]
        del waits[: max(0, len(waits) - MAX_WAITING)]
        claimed_at = claim.at if claim else inf
        for wait in waits[bisect_right(waits, claimed_at, key=until) :]:
            wait.skip(claimed_at)
            if wait.skips >= MIN_SKIPS and wait.last - wait.first > self.lock_seconds:
                wait.skips = -MAX_WAITING
                expected = f"a claim before {moment(wait.last)}, when job {job.id} or a later one was claimed"
                yield Impossible(row=wait.job, expected=expected)
        insort(waits, Wait(until=end_of_wait(history, now=now), job=job))


def until(wait: Wait) -> float:
    """Return the end of a wait."""
    return wait.until


def end_of_wait(history: History, *, now: float) -> float:
    """Return when a job was first claimed or paused, ended without a claim, or exceeded its queue limit."""
    events = history.events
    ended = next((event.at for event in events if event.after not in WAITING or event.cause == "paused"), now)
    return min(ended, history.job.created_at + history.job.queue_seconds)
