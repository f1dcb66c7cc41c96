"""Whether a stage may be split into shards, or why it runs as one process."""

import re
import sys
from enum import StrEnum

from jobs.models import Job
from simc.profiles.analysis import STAGE_OPTIONS, Analysis
from simc.profiles.grammar import tokens
from simc.profiles.includes import has_includes
from simc.profiles.numbers import read_integer, read_number
from simc.profiles.policy import LIMITED, is_profileset

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


class Whole(StrEnum):
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


def why_whole(
    job: Job,
    analysis: Analysis,
    *,
    text: str,
    submitted_text: str,
    has_html: bool,
    count: int,
    iterations: int,
    expected_seconds: float | None,
) -> Whole | None:
    """Return why a stage runs as one process, or None if it may be split into shards.

    `text` is the profile with its includes, which `analysis` describes. `count` is the number of the stage's
    profilesets, and `expected_seconds` the time that they take together in one process, None if unknown.
    `iterations` is the maximum for each of them.

    Options that the policy refuses, such as threads and logs, are not considered.
    """
    checks = (
        (job.parallel_slots < 2, Whole.ONE_SLOT),
        (count < MIN_PROFILESETS, Whole.FEW_PROFILESETS),
        (_is_short(count, expected_seconds), Whole.SHORT),
        (job.has_credentials, Whole.CREDENTIALS),
        (has_html, Whole.HTML_REPORT),
        (analysis.actors > 1, Whole.SEVERAL_ACTORS),
        (analysis.copies > 0, Whole.COPIES),
        (any(own.keys() - {None} for own in analysis.numbers.values()), Whole.OWN_NUMBERS),
        (analysis.cancels_profilesets, Whole.CONTROLLER),
        (not analysis.reports_all, Whole.UNREPORTED_PROFILESETS),
        (iterations < MIN_ITERATIONS, Whole.FEW_ITERATIONS),
        (any(len(name) > MAX_NAME_CHARACTERS for name in analysis.profilesets), Whole.LONG_NAME),
    )
    reason = next((reason for applies, reason in checks if applies), None)
    if reason is None and has_includes(submitted_text):
        return Whole.INCLUDES
    return reason or _reason_in(text)


def _is_short(count: int, expected_seconds: float | None) -> bool:
    if expected_seconds is None:
        return count < MIN_PROFILESETS_OF_UNKNOWN_TIME
    return expected_seconds < MIN_JOB_SECONDS


def _reason_in(text: str) -> Whole | None:
    """Return the first reason among the tokens of a profile without includes."""
    variables: set[str] = set()
    has_profilesets = False
    for token in tokens(text):
        name, value = token.name or "", token.value or ""
        if is_profileset(name):
            has_profilesets = True
            if value.partition("=")[0] in STAGE_OPTIONS:
                return Whole.PROFILESET_OPTION
        elif name[:1] == "$":
            if has_profilesets or name in variables:
                return Whole.VARIABLES
            variables.add(name)
        elif name in LIMITED and not _is_clear(name, value):
            return Whole.UNCLEAR_NUMBER
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
