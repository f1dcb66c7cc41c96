"""The plan of a stage: whether it is split into shards, how many profilesets each has, and their texts."""

import math
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import Build, Job, Shard, ShardedStage
from jobs.planning import past_jobs
from jobs.planning.multistage import Stage, one_run
from jobs.planning.past_jobs import PastJob
from simc.profiles.analysis import FINAL_STAGE_OPTIONS, STAGE_OPTIONS, Analysis
from simc.profiles.grammar import Token, profileset_name, tokens
from simc.profiles.includes import has_includes
from simc.profiles.numbers import Precision, read_integer, read_number
from simc.profiles.policy import LIMITED, is_profileset
from simc.profiles.selection import quoted, renamed
from simc.shortfall import Asked

MIN_PROFILESETS = 2
# A shorter stage would gain less than starting more processes costs.
MIN_JOB_SECONDS = 4.0
# If the time is unknown, the number of profilesets decides instead.
MIN_PROFILESETS_OF_UNKNOWN_TIME = 8
# The first shard runs each profileset once. With fewer iterations, that would add more than 2 percent to the work.
MIN_ITERATIONS = 50
# The names of results in reports are cut (`simc/json_stream.py`), and could then not be recognized.
MAX_NAME_CHARACTERS = 10_000
# In percent. All versions accept errors up to this one and read them in the same way.
MAX_TARGET_ERROR = 100
# `stod` rejects smaller numbers than a double can hold with all digits, except 0.
SMALLEST_NUMBER = sys.float_info.min
# The digits of a number before its exponent, other than 0
_NONZERO = re.compile(r"^[^eEpP]*[1-9]")
# Rounds of one shard for each slot whose sizes decrease. More would only add process starts, at 0.1 to 0.3 s each.
DECREASING_ROUNDS = 4
# A shorter shard would spend too much of its time on its start.
MIN_SHARD_SECONDS = 2.0
# A killed process loses at most the time of its shard, and a worker that stops can finish it within `STOP_SECONDS`.
MAX_SHARD_SECONDS = 15.0
# The conductor reads the rows of all shards twice a second. With more profilesets, shards are longer.
MAX_SHARDS = 1_000
# A profileset's time if it is unknown.
ASSUMED_SECONDS = 1.0
# Less cannot be measured.
MIN_SECONDS = 1e-6
# A byte order mark at the start of a file is skipped, so no token of the profile may come first.
_HEADING = "# A part of the profile"


_ONE = Precision(iterations=1, target_error=0)
# Its details are never used, and would be the largest part of each shard's report.
ONE_ITERATION = f"{_ONE.lines}\nreport_details=0"
# With these options, a report can lack actors, or have the iterations of one of several actors.
_HIDES_ACTORS = "quiet"
_COUNTS_ONE_ACTOR = "single_actor_batch"


@dataclass(frozen=True)
class ProfilesetText:
    """A profileset and its own tokens, one on each line."""

    name: str
    lines: str


@dataclass(frozen=True, kw_only=True)
class CutProfile:
    """A profile without numbers: the bases of the first and of the other shards in lines, and the profilesets.

    The options that apply to the baseline alone are only in `first_base`.
    """

    first_base: str
    base: str
    profilesets: tuple[ProfilesetText, ...]


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """How a stage is split: its text in parts, its numbers, and the profilesets of each shard but the first.

    `kept` is the stage of an earlier attempt that is continued, if any.
    """

    profile: CutProfile
    numbers: Precision
    groups: Sequence[Sequence[ProfilesetText]]
    kept: ShardedStage | None = None


def cut(
    text: str, *, culled: AbstractSet[str], replicates: Mapping[str, str], keeps_final_options: bool
) -> CutProfile:
    """Return a profile in parts, without the culled profilesets; each replicate follows its original.

    With `keeps_final_options`, the first base has the options of the final stage. None of them changes a
    profileset: a seed does not reach profilesets, and scale factors, plots and details belong to the baseline.
    Scale factors lower the default target error, which is therefore written out (`Analysis.effective_numbers`).

    Call this only with profiles that the policy allows (`simc.profiles.selection`).
    """
    base: list[Token] = []
    profilesets: dict[str, list[Token]] = {}
    for token in tokens(text):
        name = token.name or ""
        key = profileset_name(name) if is_profileset(name) else None
        if key is None:
            if name not in LIMITED:
                base.append(token)
        elif key[0] not in culled:
            profilesets.setdefault(key[0], []).append(token)
    others = [token for token in base if token.name not in FINAL_STAGE_OPTIONS]
    return CutProfile(
        first_base=_lines(token.text for token in (base if keeps_final_options else others)),
        base=_lines(token.text for token in others),
        profilesets=tuple(_with_replicates(profilesets, replicates)),
    )


def _with_replicates(
    profilesets: Mapping[str, Sequence[Token]], replicates: Mapping[str, str]
) -> Iterator[ProfilesetText]:
    """Yield each profileset, followed by its replicate if it has one."""
    for name, own in profilesets.items():
        yield ProfilesetText(name, _lines(token.text for token in own))
        if name in replicates:
            replicate = replicates[name]
            copies = (renamed(token, replicate, appends=(token.name or "")[-1:] == "+") for token in own)
            yield ProfilesetText(replicate, _lines(copies))


def _lines(texts: Iterable[str]) -> str:
    """Return lines that the simulator reads as these tokens."""
    return "\n".join(map(quoted, texts))


def first_input(profile: CutProfile, *, numbers: Precision) -> str:
    """Return the input of the first shard: the whole profile, with one iteration for each profileset."""
    text = shard_text(profile.profilesets, numbers=_ONE)
    return shard_input(profile.first_base, text, numbers=numbers.lines)


def shard_text(profilesets: Sequence[ProfilesetText], *, numbers: Precision | None) -> str:
    """Return the lines of profilesets with these numbers, or with those that they inherit if `numbers` is None.

    A profileset's numbers follow its own lines, because `profileset.NAME=` removes earlier ones.
    """
    options = numbers.options if numbers else ()
    blocks = (
        "\n".join([entry.lines, _lines(f"profileset.{entry.name}+={option}" for option in options)])
        for entry in profilesets
    )
    return "\n".join(blocks)


def shard_input(base_text: str, text: str, *, numbers: str) -> str:
    """Return the input of a shard: the base's numbers in lines, the base, and profilesets from `shard_text`.

    The numbers come first: after the declaration of another actor, they would override those of the profilesets
    (`docs/reference/simulator-command-line.md#profilesets`).
    """
    return "\n".join([_HEADING, numbers, base_text, text, ""])


def input_of(shard: ClaimedShard, stage: ShardedStage) -> str:
    """Return the input of a shard other than the first."""
    numbers = stage.numbers if shard.full_baseline else ONE_ITERATION
    return shard_input(stage.base_text, shard.text, numbers=numbers)


def plan(
    job: Job,
    build: Build,
    stage: Stage,
    *,
    text: str,
    submitted_text: str,
    analysis: Analysis,
    culled: AbstractSet[str],
    replicates: Mapping[str, str],
    has_html: bool,
    measured: PastJob | None,
) -> ShardPlan | None:
    """Return how a stage is split, or None if it runs as one process. At most one query; none with one slot.

    `text` is the profile with its included files. `measured` are the figures of the job's last stage, None before
    the second one.
    """
    if job.parallel_slots < 2:
        return None
    remaining = len(analysis.profilesets.keys() - culled)
    numbers = precision_of(stage, analysis, replicated=len(replicates) == remaining)
    count = remaining + len(replicates)
    seconds_each = (
        past_jobs.expected_seconds([measured], numbers=numbers)
        if measured
        else past_jobs.expected_set_seconds(job, build, numbers=numbers)
    )
    reason = reason_not_sharded(
        job,
        analysis,
        text=text,
        submitted_text=submitted_text,
        has_html=has_html,
        count=count,
        iterations=numbers.iterations,
        expected_seconds=None if seconds_each is None else count * seconds_each,
    )
    if reason is not None:
        return None
    profile = cut(text, culled=culled, replicates=replicates, keeps_final_options=stage.is_last)
    lengths = shard_sizes(count, slots=job.parallel_slots, seconds_each=seconds_each)
    return ShardPlan(profile=profile, numbers=numbers, groups=_grouped(profile.profilesets, lengths))


def continued(
    kept: ShardedStage,
    shards: Sequence[Shard],
    stage: Stage,
    *,
    text: str,
    analysis: Analysis,
    culled: AbstractSet[str],
    replicates: Mapping[str, str],
) -> ShardPlan | None:
    """Return the plan that continues a stage of an earlier attempt, or None if its text would now be another.

    `shards` are all of its shards, by number. `text` is the profile with its included files.
    """
    remaining = len(analysis.profilesets.keys() - culled)
    numbers = precision_of(stage, analysis, replicated=len(replicates) == remaining)
    profile = cut(text, culled=culled, replicates=replicates, keeps_final_options=stage.is_last)
    lengths = [shard.profilesets for shard in shards[1:]]
    if (kept.base_text, kept.numbers, sum(lengths)) != (profile.base, numbers.lines, len(profile.profilesets)):
        return None
    groups = _grouped(profile.profilesets, lengths)
    is_same = all(_is_text_of(shard, group, numbers) for shard, group in zip(shards[1:], groups, strict=True))
    return ShardPlan(profile=profile, numbers=numbers, groups=groups, kept=kept) if is_same else None


def _is_text_of(shard: Shard, profilesets: Sequence[ProfilesetText], numbers: Precision) -> bool:
    """Return whether a shard has these profilesets, with their numbers or, after a rejection, without."""
    return shard.text in (shard_text(profilesets, numbers=numbers), shard_text(profilesets, numbers=None))


def precision_of(stage: Stage, analysis: Analysis, *, replicated: bool) -> Precision:
    """Return the numbers with which a stage runs its baseline and its profilesets."""
    if stage.target_error is None:
        return analysis.effective_numbers()
    run = one_run(stage, replicated=replicated)
    return Precision(iterations=run.iterations, target_error=run.target_error or 0.0)


def _grouped(profilesets: Sequence[ProfilesetText], lengths: Sequence[int]) -> list[Sequence[ProfilesetText]]:
    """Return the profilesets in consecutive groups of these lengths."""
    ends = list(accumulate(lengths))
    return [profilesets[end - length : end] for length, end in zip(lengths, ends, strict=True)]


class NotSharded(StrEnum):
    """Why a stage runs as one process."""

    # The plan gives the job only one slot.
    ONE_SLOT = "one_slot"
    # There is nothing to divide.
    FEW_PROFILESETS = "few_profilesets"
    # Other actors are results of the baseline, and use the same numbers.
    SEVERAL_ACTORS = "several_actors"
    # Each copy is an actor.
    COPIES = "copies"
    # Where an included file declares actors and variables is known only to the build.
    INCLUDES = "includes"
    # The numbers written for shards would replace them.
    OWN_NUMBERS = "own_numbers"
    # Credentials stay on the machine that fetched them, and each process would download the character again.
    CREDENTIALS = "credentials"
    # An HTML report cannot be merged.
    HTML_REPORT = "html_report"
    # A controller cancels profilesets by rules that may depend on the others.
    CONTROLLER = "controller"
    # Reports leave out results of zero, so a lost profileset would not be noticed.
    UNREPORTED_PROFILESETS = "unreported_profilesets"
    # A profileset sets an option that is removed from the base of shards, or that must be the same for all.
    PROFILESET_OPTION = "profileset_option"
    # The value of a variable depends on the place where it is used, and profilesets move behind the base.
    VARIABLES = "variables"
    # The simulator rejects the number, reads it differently in its versions, or reads it from a variable.
    UNCLEAR_NUMBER = "unclear_number"
    # The start of more processes would cost more than it saves.
    SHORT = "short"
    # The first shard, which runs each profileset once, would be a large part of the work.
    FEW_ITERATIONS = "few_iterations"
    # The report's names are cut, so a result could not be matched with its profileset.
    LONG_NAME = "long_name"


def reason_not_sharded(
    job: Job,
    analysis: Analysis,
    *,
    text: str,
    submitted_text: str,
    has_html: bool,
    count: int,
    iterations: int,
    expected_seconds: float | None,
) -> NotSharded | None:
    """Return why a stage runs as one process, or None if it may be split into shards.

    `text` is the profile with its includes, which `analysis` describes. `count` is the number of the stage's
    profilesets, and `expected_seconds` the time that they take together in one process, None if unknown.
    `iterations` is the maximum for each of them.

    Options that the policy refuses, such as threads and logs, are not considered.
    """
    checks = (
        (job.parallel_slots < 2, NotSharded.ONE_SLOT),
        (count < MIN_PROFILESETS, NotSharded.FEW_PROFILESETS),
        (_is_short(count, expected_seconds), NotSharded.SHORT),
        (job.has_credentials, NotSharded.CREDENTIALS),
        (has_html, NotSharded.HTML_REPORT),
        (analysis.actors > 1, NotSharded.SEVERAL_ACTORS),
        (analysis.copies > 0, NotSharded.COPIES),
        (any(own.keys() - {None} for own in analysis.numbers.values()), NotSharded.OWN_NUMBERS),
        (analysis.cancels_profilesets, NotSharded.CONTROLLER),
        (not analysis.reports_all, NotSharded.UNREPORTED_PROFILESETS),
        (iterations < MIN_ITERATIONS, NotSharded.FEW_ITERATIONS),
        (any(len(name) > MAX_NAME_CHARACTERS for name in analysis.profilesets), NotSharded.LONG_NAME),
    )
    reason = next((reason for applies, reason in checks if applies), None)
    if reason is None and has_includes(submitted_text):
        return NotSharded.INCLUDES
    return reason or _reason_in(text)


def _is_short(count: int, expected_seconds: float | None) -> bool:
    if expected_seconds is None:
        return count < MIN_PROFILESETS_OF_UNKNOWN_TIME
    return expected_seconds < MIN_JOB_SECONDS


def _reason_in(text: str) -> NotSharded | None:
    """Return the first reason among the tokens of a profile without includes."""
    variables: set[str] = set()
    has_profilesets = False
    for token in tokens(text):
        name, value = token.name or "", token.value or ""
        if is_profileset(name):
            has_profilesets = True
            if value.partition("=")[0] in STAGE_OPTIONS:
                return NotSharded.PROFILESET_OPTION
        elif name[:1] == "$":
            if has_profilesets or name in variables:
                return NotSharded.VARIABLES
            variables.add(name)
        elif name in LIMITED and not _is_clear(name, value):
            return NotSharded.UNCLEAR_NUMBER
    return None


def _is_clear(name: str, value: str) -> bool:
    """Return whether all versions of the simulator read a number in the same way.

    Numbers that a later one replaces count too. A number with a variable is not clear: its value is unknown here.
    """
    if "$" in value:
        return False
    if name == "iterations":
        return read_integer(value) is not None
    error = read_number(value)
    if error is None or not 0 <= error <= MAX_TARGET_ERROR:
        return False
    # Digits other than 0 whose number is 0 are too small.
    return error >= SMALLEST_NUMBER or not _NONZERO.search(value)


def shard_sizes(count: int, *, slots: int, seconds_each: float | None) -> list[int]:
    """Return how many of `count` profilesets each shard contains, in decreasing order.

    Both `count` and `slots` are at least 1; `seconds_each` is the expected time of one profileset, None if unknown.

    The last four rounds of one shard for each slot have decreasing sizes: each shard has the smallest allowed size
    and a part of the rest, of which each round has twice as much as the next. If they would exceed the largest
    allowed size, shards of about that size come first. With too little work for one round, there are fewer shards
    than slots, all equal.
    """
    smallest, largest = _limits(count, seconds_each)
    rounds = min(DECREASING_ROUNDS, count // (smallest * slots))
    if not rounds:
        return _evenly(count, count // smallest)
    rest = count - rounds * slots * smallest
    # What the decreasing rounds can contain in addition if no shard of the first one exceeds the largest size
    room = slots * (largest - smallest) * (2**rounds - 1) // 2 ** (rounds - 1)
    first = math.ceil(max(0, rest - room) / (slots * largest)) * slots
    large = min(rest, first * largest)
    rest -= large
    extra = [(rest << round_) // (2**rounds - 1) for round_ in reversed(range(rounds))]
    # The first round has the largest shards, so the last ones contain what remains of the division.
    for round_ in range(1, rest - sum(extra) + 1):
        extra[-round_] += 1
    sizes = [size for more in extra for size in _evenly(slots * smallest + more, slots)]
    return sorted([*_evenly(large, min(first, large // smallest)), *sizes], reverse=True)


def _limits(count: int, seconds_each: float | None) -> tuple[int, int]:
    """Return the smallest and the largest number of profilesets in a shard.

    The smallest takes at least `MIN_SHARD_SECONDS`, or contains all. The largest takes at most `MAX_SHARD_SECONDS`,
    unless that is less than one profileset or makes more than `MAX_SHARDS` shards.
    """
    seconds = ASSUMED_SECONDS if seconds_each is None else max(seconds_each, MIN_SECONDS)
    smallest = min(count, max(1, math.ceil(MIN_SHARD_SECONDS / seconds)))
    return smallest, max(smallest, int(MAX_SHARD_SECONDS / seconds), math.ceil(count / MAX_SHARDS))


def _evenly(count: int, shards: int) -> list[int]:
    if not shards:
        return []
    size, larger = divmod(count, shards)
    return [size + 1] * larger + [size] * (shards - larger)


def asked_of(
    stage: Stage, analysis: Analysis, *, text: str, culled: Collection[str], replicated: bool, threads: int
) -> Asked:
    """Return what a stage is asked to do. `text` is the profile with its included files."""
    numbers = precision_of(stage, analysis, replicated=replicated)
    return Asked(
        profilesets=len(analysis.profilesets) - len(culled) if analysis.reports_all else 0,
        actors=0 if _HIDES_ACTORS in text else len(set(analysis.names)),
        iterations=0 if _COUNTS_ONE_ACTOR in text else numbers.iterations,
        limit=min(numbers.iterations, analysis.bounds.iterations),
        target_error=numbers.target_error,
        own_iterations={
            name: 0 if name in analysis.numbers["target_error"] else _iterations(analysis, name)
            for name in analysis.profilesets
            if any(name in own for own in analysis.numbers.values())
        },
        threads=threads,
        is_deterministic="deterministic" in text,
        profilesets_may_end_early=analysis.cancels_profilesets,
    )


def _iterations(analysis: Analysis, profileset: str | None) -> int:
    """Return the number that the base or a profileset names, within the limits; 0 if it names none."""
    written = analysis.numbers["iterations"].get(profileset)
    return min((written and read_integer(written.value)) or 0, analysis.bounds.iterations)
