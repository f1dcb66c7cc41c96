"""Multistage execution: the stages of a job, and the rule by which a stage removes profilesets.

Each stage simulates the remaining profilesets more precisely than the stage before. It then removes those that are
clearly beaten, so only the few that could be the best are simulated at full precision.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import count
from statistics import NormalDist, fmean

from jobs.enums import MultistageReason, StageLabel
from simc.profiles.analysis import FINAL_STAGE_OPTIONS, MORE_IS_BETTER, Analysis, with_limits
from simc.profiles.numbers import Bounds, read_integer, read_number
from simc.profiles.selection import remaining_lines
from simc.reports import MIN_FIGHTS, Profileset, Statistics, combined

SUFFIX = "~replicate"
# Enough to measure the difference. More would take too much of the simulator's memory.
MAX_REPLICATED = 1000


def suffix_for(text: str) -> str:
    """Return the suffix of the names of a profile's replicates.

    The profile does not contain the suffix, whose first character occurs in it only once. Removing it from any
    output therefore restores the names.
    """
    if SUFFIX not in text:
        return SUFFIX
    taken = set(re.findall(rf"{SUFFIX}([0-9]+)_", text))
    return next(f"{SUFFIX}{number}_" for number in count(2) if str(number) not in taken)


def names_for(profilesets: Sequence[str], *, suffix: str = SUFFIX) -> dict[str, str]:
    """Return the name of each profileset's replicate, for the first 1,000 profilesets."""
    return {name: f"{name}{suffix}" for name in profilesets[:MAX_REPLICATED]}


def pooled(profilesets: Iterable[Profileset], replicates: Mapping[str, str]) -> tuple[Profileset, ...]:
    """Return each profileset once, with the combined figures of its own and its replicate's fights."""
    entries = {entry.name: entry for entry in profilesets}
    for name, replicate in replicates.items():
        second = entries.pop(replicate, None)
        if second is not None:
            first = entries.get(name)
            statistics = combined(first.statistics, second.statistics) if first else second.statistics
            entries[name] = replace(second, name=name, statistics=statistics)
    return tuple(entries.values())


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


# From this many on, stages usually cost less than a single pass even if the profile sets no precision. It is then
# 0.05 % instead of 0.2 %: 1/25 of the work for all variants at 1 %, and 16 times the work for two or three.
MANY_VARIANTS = 50
# In percent of the mean: docs/reference/simulator-command-line.md#iterations-and-errors
COARSE_TARGET_ERRORS = (1.0, 0.2)
FINAL_TARGET_ERROR = 0.05
MIN_CANDIDATES = 4
# At most two stages cull, so a job loses its true best with less than twice this probability.
LOSS_PROBABILITY = 0.0005
# The simulator runs this many before it checks the error.
MIN_ITERATIONS = 100


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One of `count` stages, numbered from 1. A single pass is the only stage, without its own target error."""

    number: int
    count: int
    target_error: float | None = None
    iterations: int = 0

    @property
    def is_last(self) -> bool:
        return self.number == self.count

    @property
    def label(self) -> StageLabel:
        """Return the stage's label (docs/reference/api.md#stages)."""
        if self.number == 1:
            return StageLabel.INITIAL
        return StageLabel.FINAL if self.is_last else StageLabel.INTERMEDIATE


@dataclass(frozen=True)
class StagePlan:
    """The stages of a job, and the reason for them (`docs/reference/api.md#stages`)."""

    reason: MultistageReason
    stages: tuple[Stage, ...] = (Stage(number=1, count=1),)

    @property
    def enabled(self) -> bool:
        return self.reason == MultistageReason.ELIGIBLE


def plan(analysis: Analysis, *, wanted: bool, bounds: Bounds) -> StagePlan:
    """Return the stages of a profile: several if `wanted` and possible, a single pass otherwise."""
    reason = _reason_of(analysis) if wanted else MultistageReason.DISABLED
    if reason != MultistageReason.ELIGIBLE:
        return StagePlan(reason)
    errors = _target_errors(analysis, bounds)
    iterations = _max_iterations(analysis, bounds)
    stages = [
        Stage(number=number, count=len(errors), target_error=error, iterations=iterations)
        for number, error in enumerate(errors, start=1)
    ]
    return StagePlan(reason, tuple(stages))


def by_default(analysis: Analysis) -> bool:
    """Return whether a profile should run in stages if the person who submits it does not choose."""
    return len(analysis.profilesets) >= MANY_VARIANTS


def _reason_of(analysis: Analysis) -> MultistageReason:
    """Return why a profile can be run in stages, or why it cannot."""
    candidates = sum(analysis.profilesets.values())
    checks = (
        (analysis.variants == 0, MultistageReason.NO_VARIANTS),
        (analysis.actors > 1, MultistageReason.SEVERAL_ACTORS),
        (bool(analysis.copies and not analysis.profilesets), MultistageReason.COPIES_ONLY),
        (bool(analysis.copies), MultistageReason.MIXED_WITH_COPIES),
        (candidates == 0, MultistageReason.NO_CANDIDATES),
        (candidates < MIN_CANDIDATES, MultistageReason.TOO_FEW_CANDIDATES),
        (
            analysis.stage_sensitive or analysis.metric not in MORE_IS_BETTER,
            MultistageReason.STAGE_SENSITIVE,
        ),
    )
    return next((reason for applies, reason in checks if applies), MultistageReason.ELIGIBLE)


def _target_errors(analysis: Analysis, bounds: Bounds) -> list[float]:
    """Return each stage's target error, ending with the profile's own, or the default, within the limits."""
    written = analysis.numbers["target_error"].get(None)
    own = written and read_number(written.value)
    # Zero, negative and invalid values disable the target.
    final = max(own if own and own > 0 else FINAL_TARGET_ERROR, bounds.target_error)
    return [*(error for error in COARSE_TARGET_ERRORS if error > final), final]


def _max_iterations(analysis: Analysis, bounds: Bounds) -> int:
    """Return the limit of iterations of each run: the profile's own number, or the platform's."""
    written = analysis.numbers["iterations"].get(None)
    own = written and read_integer(written.value)
    return min(own, bounds.iterations) if own and own > 0 else bounds.iterations


def replicates(
    stage: Stage, analysis: Analysis, *, culled: AbstractSet[str], suffix: str = SUFFIX
) -> dict[str, str]:
    """Map each profileset that a stage runs twice to its replicate's name. Empty in the last stage."""
    if stage.is_last:
        return {}
    return names_for([name for name in analysis.profilesets if name not in culled], suffix=suffix)


def one_run(stage: Stage, *, replicated: bool) -> Stage:
    """Return a stage with the precision of one run: two with half the fights equal one with all."""
    if stage.target_error is None or not replicated:
        return stage
    iterations = max(min(stage.iterations, MIN_ITERATIONS), math.ceil(stage.iterations / 2))
    return replace(stage, target_error=round(stage.target_error * math.sqrt(2), 4), iterations=iterations)


def stage_text(
    stage: Stage, text: str, analysis: Analysis, *, culled: AbstractSet[str], replicates: Mapping[str, str]
) -> str:
    """Return the text of a stage: the profile within the platform's limits, without the culled profilesets.

    The stage's numbers follow the profile's, because the last one wins
    (`docs/reference/simulator-command-line.md#order-and-values`). A comment comes first: a byte order mark at the
    start of a file is skipped, so a token that begins with one would differ from the token that the policy checked.
    """
    if stage.target_error is None:
        return with_limits(text, analysis)
    options = frozenset[str]() if stage.is_last else FINAL_STAGE_OPTIONS
    kept = remaining_lines(text, without_profilesets=culled, without_options=options, replicates=replicates)
    run = one_run(stage, replicated=len(replicates) == len(analysis.profilesets.keys() - culled))
    numbers = [f"target_error={run.target_error}", f"iterations={run.iterations}"]
    return "\n".join([f"# Stage {stage.number} of {stage.count}", *kept, *numbers, ""])


def beaten(profilesets: Sequence[Profileset], *, widening: float = 1.0) -> set[str]:
    """Return the names of the profilesets that a stage culls because they are clearly worse than the best.

    With k profilesets, means m and standard errors s, the one with the best mean b beats i when

        m[b] - m[i] > z * sqrt(s[b]² + s[i]²),  with  Φ(z) = 1 - p / (k - 1),  p = LOSS_PROBABILITY.

    The true best t is lost only if m[j] - m[t] exceeds this limit for some j. The true mean of j is not above that
    of t, and the root is the standard error of the difference of two independent means. For each j, the probability
    is therefore at most 1 - Φ(z) = p / (k - 1); for all k - 1 together (Boole's inequality) it is at most p. Errors
    are estimated, at a moment that the simulator chooses; for that reason, p is half of the promised 0.1 %.

    This holds for many fights. After few fights (a profile can set `iterations` or `analyze_error_interval`), an
    estimated error can be close to 0 by chance. A profileset with such an error neither beats nor is beaten.

    The rule assumes that s is the true standard error of a mean. If it is larger by the factor `widening`
    (`replicates.widening`), z is multiplied by it.
    """
    if len(profilesets) < 2:
        return set()
    limit = widening * NormalDist().inv_cdf(1 - LOSS_PROBABILITY / (len(profilesets) - 1))
    best = max((entry.statistics for entry in profilesets), key=lambda statistics: statistics.mean)
    return {
        entry.name
        for entry in profilesets
        if best.mean - entry.statistics.mean > limit * math.hypot(known_error(best), known_error(entry.statistics))
    }
