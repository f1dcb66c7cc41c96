"""Which simulator builds there are, and which one a job runs on."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from jobs import runner
from jobs.models import Build, Job
from jobs.simulator import command
from jobs.simulator.process import SimulatorNotStarted
from jobs.simulator.sandbox import NotRunnable, require_runnable

PROBE_SECONDS = 30


class UnusableBuild(Exception):
    """An executable that cannot serve as a build; the message says why."""


def register(
    executable: Path, *, git_branch: str, commit: str, created_at: datetime, readable: Sequence[Path] = ()
) -> Build:
    """Probe an executable and record it as the build of a commit; registering it again updates the record.

    The executable's own folder is readable to it, and what `readable` adds. Raises UnusableBuild when it cannot
    be run in the sandbox or does not say which version it is.
    """
    executable = executable.absolute()
    paths = sorted({executable.resolve().parent, *(path.resolve() for path in readable)})
    build = Build(executable=str(executable), readable_paths=[str(path) for path in paths])
    version = command.parse_version_line(probe(build))
    if version is None:
        raise UnusableBuild(f"{executable} ran, but printed no version line.")
    recorded, _ = Build.objects.update_or_create(
        git_branch=git_branch,
        commit=commit,
        defaults={
            "executable": build.executable,
            "readable_paths": build.readable_paths,
            "simc_version": version.simc_version,
            "wow_version": version.wow_version or "",
            "hotfix_date": version.hotfix_date,
            "created_at": created_at,
        },
    )
    return recorded


def probe(build: Build) -> str:
    """Return what a build prints when asked for its version in the sandbox. Raises UnusableBuild."""
    printed: list[str] = []
    try:
        require_runnable(Path(build.executable), readable=[Path(path) for path in build.readable_paths])
        with runner.private_directory() as directory:
            process = runner.simulator(
                build,
                command.probe_arguments(),
                directory=directory,
                threads=1,
                seconds=PROBE_SECONDS,
                on_line=lambda stream, text: printed.append(text) if stream == "stdout" else None,
            )
            with process:
                ended = process.wait(PROBE_SECONDS)
    except (NotRunnable, SimulatorNotStarted) as error:
        raise UnusableBuild(str(error)) from error
    if ended is None:
        raise UnusableBuild(f"{build.executable} did not answer within {PROBE_SECONDS} s.")
    return "\n".join(printed)


def resolve(job: Job) -> Build | None:
    """Return the newest available build of the job's branch, or None."""
    available = Build.objects.filter(git_branch=job.git_branch, withdrawn_at=None)
    return available.order_by("-created_at").first()
