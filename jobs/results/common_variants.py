"""Variants that two jobs have in common, joined by their exact names."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from jobs.models import Job, JobRanking
from jobs.results import rankings
from jobs.results.rankings import Entry
from jobs.results.verdicts import EVEN, GAIN, LOSS, Compared, margin_between, variants_of, widened


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The results of one name in two jobs. `margin` is that of the difference, infinity if it is unknown."""

    name: str
    first: Entry
    second: Entry
    margin: float

    @property
    def difference(self) -> float:
        return self.second.mean - self.first.mean

    @property
    def kind(self) -> str:
        """Return GAIN or LOSS if the second result is clearly higher or lower, else EVEN."""
        if not abs(self.difference) > self.margin:
            return EVEN
        return GAIN if self.difference > 0 else LOSS

    @property
    def percent(self) -> float | None:
        """Return the difference in percent of the first result, None if that is zero."""
        return self.in_percent(self.difference)

    @property
    def margin_percent(self) -> float | None:
        """Return the margin in percent of the first result, None if it is unknown."""
        return self.in_percent(self.margin)

    def in_percent(self, value: float) -> float | None:
        """Return a value in percent of the first result, None if that is not a finite number."""
        percent = value / abs(self.first.mean) * 100 if self.first.mean else math.inf
        return percent if math.isfinite(percent) else None


@dataclass(frozen=True, kw_only=True)
class CommonVariants:
    """The variants of two jobs: those of both, best first, and the known names that only one has.

    `baseline` compares the profiles without variants. All margins hold together with a probability of 95 %.
    """

    baseline: Pair
    pairs: Sequence[Pair]
    only_first: Sequence[str]
    only_second: Sequence[str]

    @cached_property
    def kinds(self) -> Counter[str]:
        """Return the number of pairs of each kind."""
        return Counter(pair.kind for pair in self.pairs)


def variants_of_jobs(jobs: Sequence[Job]) -> list[Compared | None]:
    """Return all variants of each job, None for a job without a main actor. At most one query."""
    long = [job.pk for job in jobs if rankings.lists_only_some(job.summary)]
    stored = {row.job_id: bytes(row.document) for row in JobRanking.objects.filter(job__in=long)} if long else {}
    return [_variants(job, stored) for job in jobs]


def _variants(job: Job, stored: Mapping[int, bytes]) -> Compared | None:
    document = stored.get(job.pk)
    return variants_of(job.summary, entries=[] if document is None else rankings.unpacked(document))


def common_variants(first: Compared, second: Compared) -> CommonVariants | None:
    """Return the variants of two jobs, or None if neither has any. The jobs must have the same metric."""
    ours, theirs = _by_name(first), _by_name(second)
    if not ours and not theirs:
        return None
    names = [name for name in ours if name in theirs]
    # The baselines are one more comparison.
    factor = widened(len(names) + 1) * max(first.widening, second.widening)

    def pair(name: str, own: Entry, other: Entry) -> Pair:
        return Pair(name=name, first=own, second=other, margin=margin_between(own, other, factor=factor))

    pairs = [pair(name, ours[name], theirs[name]) for name in names]
    return CommonVariants(
        baseline=pair("", first.own, second.own),
        pairs=sorted(pairs, key=lambda each: -max(each.first.mean, each.second.mean)),
        only_first=[name for name in ours if name not in theirs] if second.is_complete else [],
        only_second=[name for name in theirs if name not in ours] if first.is_complete else [],
    )


def _by_name(compared: Compared) -> dict[str, Entry]:
    """Return the entries by name, best first. Of entries with the same name, the best one counts."""
    found: dict[str, Entry] = {}
    for entry in compared.entries:
        found.setdefault(entry.name, entry)
    return found
