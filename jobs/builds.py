"""Which simulator builds there are, and which one a job runs on."""

import os
import subprocess
from datetime import datetime
from pathlib import Path

from jobs.models import Build, Job
from jobs.simulator import command

PROBE_SECONDS = 30


class UnusableBuild(Exception):
    """An executable that cannot serve as a build; the message says why."""


def register(executable: Path, *, git_branch: str, commit: str, created_at: datetime) -> Build:
    """Probe an executable and record it as the build of a commit; registering it again updates the record.

    Raises UnusableBuild when it cannot be run or does not say which version it is.
    """
    version = command.parse_version_line(probe(executable))
    if version is None:
        raise UnusableBuild(f"{executable} ran, but printed no version line.")
    build, _ = Build.objects.update_or_create(
        git_branch=git_branch,
        commit=commit,
        defaults={
            "executable": str(executable.resolve()),
            "simc_version": version.simc_version,
            "wow_version": version.wow_version or "",
            "hotfix_date": version.hotfix_date,
            "created_at": created_at,
        },
    )
    return build


def probe(executable: Path) -> str:
    """Return what the executable prints when it is asked for its version. Raises UnusableBuild."""
    if not os.access(executable, os.X_OK):
        raise UnusableBuild(f"{executable} is not an executable file.")
    try:
        done = subprocess.run(
            [str(executable.resolve()), *command.probe_arguments()],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnusableBuild(f"{executable} could not be run: {error}") from error
    return done.stdout


def resolve(job: Job) -> Build | None:
    """Return the newest available build of the job's branch, or None."""
    available = Build.objects.filter(git_branch=job.git_branch, withdrawn_at=None)
    return available.order_by("-created_at").first()
