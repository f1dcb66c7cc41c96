"""The input text of a run: the profile with its included files, checked again.

At submission, the build is not final and included files are not read. Their directives, numbers and variants are
therefore checked here, in the text that runs.
"""

from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from jobs.enums import ErrorCode, Status
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Build, Job
from simc.characters import visible
from simc.profiles.analysis import Analysis, analyse, analyse_submitted, corrected
from simc.profiles.bundle import Bundle
from simc.profiles.includes import BadInclude, FlatProfile, MissingFile, SourceLine, flatten, has_includes
from simc.profiles.numbers import Bounds
from simc.profiles.places import locate
from simc.profiles.policy import Rules

SHOWN_CHARACTERS = 200
NOTHING_TO_SIMULATE = (
    'There is nothing to simulate: the profile does not define a character. Add a line such as mage="Name".'
)
LINE_BREAKS_LOST = "The text seems to have lost its line breaks. With curl, use --data-binary instead of -d."
NOTHING_TO_SIMULATE_WITH_INCLUDES = (
    "There is nothing to simulate: neither the profile nor its included files define a character. "
    'Add a line such as mage="Name".'
)


class CannotRun(Exception):
    """The profile cannot run on its build; `outcome` is the job's."""

    def __init__(self, error_code: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = Outcome(status=Status.FAILED, error_code=error_code, reason=reason)


@dataclass(frozen=True, kw_only=True)
class InputText:
    """A profile as it runs, its analysis, and its text before corrections with the sources of its lines.

    `text` is corrected (`simc.profiles.analysis.corrected`), but without the platform's limits, because stages and
    shards have their own numbers. `flat` is None without includes.
    """

    text: str
    uncorrected: str
    analysis: Analysis
    flat: FlatProfile | None = None

    def located(self, message: str) -> str:
        """Return an error message after the line and the option that it is about, if the profile has them."""
        place = locate(message, self.uncorrected)
        if place is None:
            return message
        source = self.flat.source(place.line) if self.flat else SourceLine(None, place.line)
        return f"{source}, {place.subject}: {message}"


def read(job: Job, text: str, build: Build) -> InputText:
    """Return the text that a job with this profile runs on a build, and its analysis. Raises CannotRun."""
    rules = Rules(has_credentials=job.has_credentials)
    if not has_includes(text):
        analysis = analyse(text, rules=rules, bounds=bounds())
        return InputText(text=corrected(text, analysis), uncorrected=text, analysis=analysis)
    try:
        flat = flatten(text, bundle=Bundle(Path(build.profiles_path), build.includable))
    except MissingFile as error:
        reason = f"A file of the build {build} is missing or has changed. {error}"
        raise CannotRun(ErrorCode.BUILD_UNAVAILABLE, reason) from error
    except BadInclude as error:
        raise CannotRun(ErrorCode.INPUT_INVALID, f"The profile cannot run on the build {build}. {error}") from error
    analysis = analyse_submitted(flat.text, rules=rules, bounds=bounds())
    _require_allowed(flat, analysis)
    _require_variants(job, analysis)
    return InputText(text=corrected(flat.text, analysis), uncorrected=flat.text, analysis=analysis, flat=flat)


def bounds() -> Bounds:
    """Return the platform's limits on the numbers in a profile."""
    return Bounds(iterations=settings.MAX_ITERATIONS, target_error=settings.MIN_TARGET_ERROR)


def _require_allowed(flat: FlatProfile, analysis: Analysis) -> None:
    """Raise CannotRun if the policy refuses an included file, or if nothing would be simulated."""
    reason = refusal(flat, analysis)
    if reason:
        raise CannotRun(ErrorCode.INPUT_INVALID, reason)
    if not analysis.has_actor:
        raise CannotRun(ErrorCode.INPUT_INVALID, NOTHING_TO_SIMULATE_WITH_INCLUDES)


def refusal(flat: FlatProfile, analysis: Analysis) -> str | None:
    """Return why the policy refuses a profile with its includes, or None."""
    if analysis.excess:
        return f"With its included files, the profile has {analysis.excess}."
    if not analysis.refused:
        return None
    first = analysis.refusals[0]
    return f"{flat.source(first.line)}, {shown(first.text)}: {first.reason}."


def shown(text: str) -> str:
    """Return a directive's text, cut at 200 characters, with its invisible characters."""
    return visible(text[:SHOWN_CHARACTERS])[:SHOWN_CHARACTERS]


def _require_variants(job: Job, analysis: Analysis) -> None:
    """Raise CannotRun if the included files add more variants than the account's plan allows."""
    limit, count = job.account.plan.max_variants, analysis.counted_variants
    if count > limit:
        reason = f"With its included files, the profile has {count:,} variants; the plan allows {limit:,}."
        raise CannotRun(ErrorCode.INPUT_INVALID, reason)
