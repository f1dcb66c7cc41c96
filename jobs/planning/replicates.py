"""Replicates: second runs of profilesets, to measure how much equal profilesets differ.

A reported error covers only the randomness within one run, not an effect of the run's seed on all its fights. Two
runs of one profileset with different seeds differ by both.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from simc.reports import Profileset, Statistics, fights_of

SUFFIX = "~replicate"
# Enough to measure the difference. More would take too much of the simulator's memory.
MAX_REPLICATED = 1000
# The simulator checks the error after a hundred fights, less the first one of each thread.
MIN_FIGHTS = 80


def names_for(profilesets: Sequence[str]) -> dict[str, str]:
    """Return the name of each profileset's replicate, for the first 1,000 profilesets."""
    suffix, taken = SUFFIX, set(profilesets)
    while any(f"{name}{suffix}" in taken for name in profilesets):
        suffix += "~"
    return {name: f"{name}{suffix}" for name in profilesets[:MAX_REPLICATED]}


def pooled(profilesets: Iterable[Profileset], replicates: Mapping[str, str]) -> tuple[Profileset, ...]:
    """Return each profileset once, with the combined figures of its own and its replicate's fights."""
    combined = {entry.name: entry for entry in profilesets}
    for name, replicate in replicates.items():
        second = combined.pop(replicate, None)
        if second is not None:
            first = combined.get(name)
            statistics = _combine(first.statistics, second.statistics) if first else second.statistics
            combined[name] = replace(second, name=name, statistics=statistics)
    return tuple(combined.values())


def _combine(first: Statistics, second: Statistics) -> Statistics:
    """Return the statistics of the fights of both, or the first if one's number of fights is unknown."""
    fights = [fights_of(entry.stddev, entry.mean_stddev) for entry in (first, second)]
    if not all(fights):
        return first
    total = sum(fights)
    mean = (fights[0] * first.mean + fights[1] * second.mean) / total
    squares = sum(
        count * (entry.stddev**2 + (entry.mean - mean) ** 2)
        for count, entry in zip(fights, (first, second), strict=True)
    )
    stddev = math.sqrt(squares / total)
    return Statistics(
        mean=mean,
        mean_stddev=stddev / math.sqrt(total),
        stddev=stddev,
        min=min(first.min, second.min),
        max=max(first.max, second.max),
    )


def known_error(statistics: Statistics) -> float:
    """Return the standard error of a mean; infinity if there were too few fights to estimate it."""
    error = statistics.mean_stddev
    return error if error and statistics.stddev >= error * math.sqrt(MIN_FIGHTS) else math.inf


def widening(profilesets: Iterable[Profileset], replicates: Mapping[str, str]) -> float:
    """Return the factor by which replicates differ more than their reported errors, at least 1.

    If the errors are correct, the squared difference of two equal profilesets is on average the sum of their
    squared errors. The mean ratio of n pairs is then 1, with a standard deviation of √(2/n). If it exceeds 1 by
    more than two standard deviations, the errors are too small, and the ratio is increased by its own uncertainty.
    """
    statistics = {entry.name: entry.statistics for entry in profilesets}
    pairs = [
        (statistics[name], statistics[replicate])
        for name, replicate in replicates.items()
        if {name, replicate} <= statistics.keys()
    ]
    errors = [math.hypot(known_error(first), known_error(second)) for first, second in pairs]
    ratios = [
        ((first.mean - second.mean) / error) ** 2
        for (first, second), error in zip(pairs, errors, strict=True)
        if error < math.inf
    ]
    if not ratios:
        return 1.0
    ratio, margin = fmean(ratios), 1 + 2 * math.sqrt(2 / len(ratios))
    return math.sqrt(ratio * margin if ratio > margin else max(1.0, ratio))
