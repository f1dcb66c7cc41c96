"""The text that a job runs on a build: its profile with the included files, checked again.

Submission does not know for certain which build will run, and does not read included files. Their directives,
numbers and variants are therefore checked here, in the text that runs.
"""

from pathlib import Path

from django.conf import settings

from jobs.enums import ErrorCode, Status
from jobs.lifecycle import Outcome
from jobs.models import Build, Job, JobProfile
from jobs.profiles import bundle
from jobs.profiles.analysis import Analysis, Bounds, analyse, analyse_submitted
from jobs.profiles.bundle import Bundle
from jobs.profiles.includes import BadInclude, FlatProfile, MissingFile, flatten, has_includes
from jobs.profiles.policy import Rules

SHOWN_CHARACTERS = 200
NOTHING_TO_SIMULATE = (
    'There is nothing to simulate: the profile starts no character. It needs a line such as mage="Name".'
)


class CannotRun(Exception):
    """The profile cannot run on its build; `outcome` is the end of the job."""

    def __init__(self, error_code: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = Outcome(status=Status.FAILED, error_code=error_code, reason=reason)


def read(job: Job, build: Build) -> tuple[str, Analysis]:
    """Return the text that a job runs on a build, and its analysis. Raises CannotRun."""
    text = JobProfile.objects.get(job=job).text
    rules = Rules(has_credentials=job.has_credentials)
    if not has_includes(text):
        return text, analyse(text, rules=rules, bounds=bounds())
    try:
        flat = flatten(text, bundle=bundle_of(build))
    except MissingFile as error:
        reason = f"A file of the build {build} is missing or has changed. {error}"
        raise CannotRun(ErrorCode.BUILD_UNAVAILABLE, reason) from error
    except BadInclude as error:
        raise CannotRun(ErrorCode.INPUT_INVALID, f"The profile cannot run on the build {build}. {error}") from error
    analysis = analyse_submitted(flat.text, rules=rules, bounds=bounds())
    require_harmless(flat, analysis)
    require_variants(job, analysis)
    return flat.text, analysis


def bounds() -> Bounds:
    """Return the platform's limits on what a profile may ask for."""
    return Bounds(iterations=settings.MAX_ITERATIONS, target_error=settings.MIN_TARGET_ERROR)


def bundle_of(build: Build) -> Bundle:
    """Return a build's bundled files; all files in the folder if an earlier version registered the build."""
    folder = Path(build.profiles_path)
    if not build.profiles_path:
        return Bundle(folder, [])
    return Bundle(folder, build.includable or bundle.scan(folder)[0])


def require_harmless(flat: FlatProfile, analysis: Analysis) -> None:
    """Raise CannotRun if the policy refuses an included file, or if nothing would be simulated."""
    wrong = objection(flat, analysis)
    if wrong:
        raise CannotRun(ErrorCode.INPUT_INVALID, wrong)
    if not analysis.has_actor:
        raise CannotRun(ErrorCode.INPUT_INVALID, f"{NOTHING_TO_SIMULATE} Its included files start none.")


def objection(flat: FlatProfile, analysis: Analysis) -> str | None:
    """Return why a text with its includes must not run, None if it can."""
    if analysis.excess:
        return f"With its included files, the profile has {analysis.excess}."
    if not analysis.refused:
        return None
    first = analysis.refusals[0]
    return f"{flat.source(first.line)}, {shown(first.text)}: {first.reason}."


def shown(text: str) -> str:
    """Return a directive's text, cut at 200 characters."""
    return text[:SHOWN_CHARACTERS]


def require_variants(job: Job, analysis: Analysis) -> None:
    """Raise CannotRun if the included files add more variants than the account's plan allows."""
    most = job.account.plan.max_variants
    if analysis.variants > most:
        found = f"With its included files, the profile has {analysis.variants:,} variants"
        raise CannotRun(ErrorCode.INPUT_INVALID, f"{found}; the plan allows {most:,}.")
