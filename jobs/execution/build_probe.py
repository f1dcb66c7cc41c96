"""Run a build to print its version."""

from pathlib import Path

from jobs.execution import runner
from jobs.execution.directories import private_directory
from jobs.execution.runner import PROBE_SECONDS
from jobs.models import Build
from sandbox.confinement import NotRunnable, require_runnable
from sandbox.process import NotExecutable, NotStarted
from simc import command
from simc.command import BuildVersion


class UnusableBuild(Exception):
    """An executable cannot be used as a build; the message says why."""


class NotChecked(Exception):
    """A build was not checked, because its sandbox failed; the message says why. Another check can work."""


def version_of(build: Build) -> BuildVersion:
    """Return the version that a build prints. Raises UnusableBuild or NotChecked."""
    printed = _probe(build)
    version = command.parse_version_line(printed)
    if version is None:
        last = f" Its last line was: {printed.splitlines()[-1]}" if printed else ""
        raise UnusableBuild(f"{build.executable} ran, but did not print its version.{last}")
    return version


def _probe(build: Build) -> str:
    """Run a build in the sandbox to print its version; return its output. Raises UnusableBuild or NotChecked."""
    printed: list[str] = []
    try:
        require_runnable(Path(build.executable), readable=[Path(path) for path in build.readable_paths])
        with private_directory() as directory:
            process = runner.simulator(
                build,
                command.probe_arguments(),
                directory=directory,
                threads=1,
                seconds=PROBE_SECONDS,
                on_line=lambda _, text: printed.append(text),
            )
            with process:
                ended = process.wait(PROBE_SECONDS)
    except (NotRunnable, NotExecutable) as error:
        raise UnusableBuild(str(error)) from error
    except NotStarted as error:
        raise NotChecked(str(error)) from error
    if ended is not None and ended.is_lost:
        raise NotChecked(f"The launcher of {build.executable} died.")
    if ended is None:
        raise UnusableBuild(f"{build.executable} did not answer within {PROBE_SECONDS} s.")
    return "\n".join(printed)
