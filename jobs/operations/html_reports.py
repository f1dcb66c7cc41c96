"""Whether a build can write HTML reports, tried with a small run.

Some builds need the locale `en_US.UTF-8` for them and crash without it, after they have written the JSON report
(`docs/reference/simulator-command-line.md#environment`).
"""

import logging
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from jobs import registry
from jobs.execution import runner
from jobs.execution.build_probe import NotChecked
from jobs.execution.directories import private_directory
from jobs.execution.verdict import end_of
from jobs.models import Build
from sandbox import locales
from sandbox.private_directory import PrivateDirectory
from sandbox.process import Ended, NotExecutable, NotStarted
from simc import command
from simc.profiles.bundle import Bundle, UnusableFile
from simc.profiles.includes import BadInclude, flatten

logger = logging.getLogger(__name__)

SECONDS = 60
ITERATIONS = 3
# Bundled profiles to try if the build does not know the class of the small one
MAX_BUNDLED = 2
SMALL_PROFILE = 'mage="Check"\nrace=gnome\nspec=frost\n'
REASON_CHARACTERS = 500
LOCALE = re.compile(r"\blocale\b", re.IGNORECASE)
LACKS_LOCALE = f"It crashes because the locale {locales.NAME}, which it needs for them, is not installed."
LOCALE_ADVICE = f"Install {locales.NAME}, or glibc's C.UTF-8 in {locales.SYSTEM}, then run `checkbuilds`."
OTHER_ADVICE = "Jobs on this build complete without an HTML report. After you repair the build, run `checkbuilds`."


def check(build: Build) -> str | None:
    """Return why a build cannot write HTML reports, an empty text if it can, or None if that is unknown.

    It is unknown if the build cannot simulate any profile that is tried. Raises NotChecked if the sandbox failed.
    """
    for profile in _profiles(build):
        failure = _failure(build, profile, html=True)
        if failure is None:
            return ""
        if _failure(build, profile, html=False) is None:
            return failure
    return None


def record(build: Build) -> str | None:
    """Check a build and record the result, unless it is unknown. Return the result; raises NotChecked."""
    failure = check(build)
    if failure is not None:
        Build.objects.filter(pk=build.pk).update(html_failure=failure)
        build.html_failure = failure
    return failure


def record_all() -> dict[Build, str]:
    """Record the results of each available build on this machine.

    Returns the builds that cannot write HTML reports, with the reasons. Leaves out those whose sandbox failed.
    """
    failures: dict[Build, str] = {}
    for build in filter(registry.is_installed, Build.objects.filter(withdrawn_at=None)):
        try:
            failure = record(build)
        except NotChecked as error:
            logger.warning("an HTML report could not be tried with the build %s: %s", build, error)
        else:
            failures |= {build: failure} if failure else {}
    return failures


def advice(failure: str) -> str:
    """Return what to do about a build that cannot write HTML reports."""
    return LOCALE_ADVICE if failure == LACKS_LOCALE else OTHER_ADVICE


def _profiles(build: Build) -> Iterator[str]:
    """Yield a small profile, then bundled ones, which a build with other classes can simulate."""
    yield SMALL_PROFILE
    folder = Path(build.profiles_path)
    whole = Bundle(folder, build.includable)
    for path in islice(build.profiles, MAX_BUNDLED):
        try:
            yield flatten(whole.read(path), bundle=whole, path=path).text
        except (BadInclude, UnusableFile) as error:
            logger.warning("the bundled profile %s of the build %s cannot be read: %s", path, build, error)


def _failure(build: Build, profile: str, *, html: bool) -> str | None:
    """Run a profile for a few iterations. Return why its reports are missing, or None; raises NotChecked."""
    with private_directory() as directory:
        runner.prepare(directory, f"{profile}\niterations={ITERATIONS}\ntarget_error=0\n")
        arguments = command.arguments(threads=1, json_version=2, html=html)
        process = runner.simulator(
            build, arguments, directory=directory, threads=1, seconds=SECONDS, on_line=lambda *_: None
        )
        try:
            with process:
                ended = process.wait(SECONDS)
        except NotExecutable as error:
            return str(error)[:REASON_CHARACTERS]
        except NotStarted as error:
            raise NotChecked(str(error)) from error
        if ended is not None and ended.is_lost:
            raise NotChecked(f"The launcher of {build.executable} died.")
        reports = [command.REPORT_NAME, *([command.HTML_NAME] if html else [])]
        return _reason(ended, directory, reports)


def _reason(ended: Ended | None, directory: PrivateDirectory, reports: list[str]) -> str | None:
    """Return why a run did not write all reports, or None if it did."""
    if ended is None:
        return f"It did not finish the report within {SECONDS} s."
    if ended.exit_status == 0:
        paths = [directory.cwd / name for name in reports]
        is_complete = all(path.is_file() and not path.is_symlink() and path.stat().st_size for path in paths)
        return None if is_complete else "It exits with status 0 but writes no report."
    if any(LOCALE.search(directory.log(stream).read_text(errors="replace")) for stream in ("stderr", "stdout")):
        return LACKS_LOCALE
    return f"It ends with {end_of(ended)} while writing the report."
