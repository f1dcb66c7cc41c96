"""Registration of a simulator executable as a build: a probe, and checks of all its bundled files."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from jobs import registry
from jobs.enums import Status
from jobs.execution import runner, verdict
from jobs.execution.build_probe import NotChecked, UnusableBuild, version_of
from jobs.execution.directories import private_directory
from jobs.execution.outputs import Outputs, scrubber_of
from jobs.models import Build, Job
from jobs.planning import input_text
from sandbox.process import NotExecutable, NotStarted
from simc import command
from simc.profiles import bundle
from simc.profiles.analysis import analyse_submitted
from simc.profiles.bundle import Bundle
from simc.profiles.includes import BadInclude, FlatProfile, flatten
from simc.profiles.policy import Rules
from simc.shortfall import Asked
from simservice.clocks import database_time

logger = logging.getLogger(__name__)

# Folders that a build never gets as a whole, in addition to homes
SECRET_FOLDERS = ("/root", "/home", "/etc", "/tmp", "/var/tmp", "/proc", "/sys", "/dev", "/run", "/var/lib")  # noqa: S108
PROFILE_SECONDS = 120
PROFILE_ITERATIONS = 3
PROGRESS_SECONDS = 5.0
REASON_CHARACTERS = 500

# Called with the number of checked files and the number of all files, every few seconds and at the end.
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The origin of an executable. None keeps what is registered; a new build gets the current time and no URL."""

    git_branch: str
    commit: str
    created_at: datetime | None = None
    repo: str | None = None


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """The result of checking a bundled file.

    `files` are the file and its includes, None if they were refused. `reason` says why it does not simulate.
    """

    path: str
    files: frozenset[str] | None = None
    is_profile: bool = False
    reason: str | None = None


def register(
    executable: Path,
    origin: Origin,
    *,
    readable: Sequence[Path] = (),
    profiles: Path | None = None,
    on_progress: OnProgress = lambda *_: None,
) -> Build:
    """Probe an executable and record it as the build of a commit; registering it again updates the record.

    The executable can read itself and the paths in `readable`. `profiles` is the folder of its bundled
    files; without it, a registered build keeps those that it has. Raises UnusableBuild if the executable cannot be
    run in the sandbox, does not print its version, or has too many bundled files, and NotChecked.
    """
    build = Build(executable=str(executable.resolve()), readable_paths=readable_paths(executable, readable))
    version = version_of(build)
    fields: dict[str, Any] = {
        "simc_version": version.simc_version,
        "wow_version": version.wow_version or "",
        "hotfix_date": version.hotfix_date,
        "executable": build.executable,
        "readable_paths": build.readable_paths,
    }
    if origin.created_at is not None:
        fields["created_at"] = origin.created_at
    if origin.repo is not None:
        fields["repo"] = origin.repo
    if profiles is not None:
        fields["profiles_path"] = str(profiles.resolve())
        fields |= check_profiles(build, profiles.resolve(), on_progress=on_progress)
    recorded, _ = Build.objects.update_or_create(
        git_branch=origin.git_branch,
        commit=origin.commit,
        defaults=fields,
        create_defaults={"created_at": database_time(), **fields},
    )
    # A broken build has just passed the probe. A build that an operator withdrew stays withdrawn.
    if registry.restore(Build.objects.filter(registry.BROKEN, pk=recorded.pk)):
        recorded.refresh_from_db()
    return recorded


def require_as_registered(build: Build) -> None:
    """Raise UnusableBuild unless a build runs here and prints the version that was registered, or NotChecked."""
    version = version_of(build).simc_version
    if version != build.simc_version:
        raise UnusableBuild(f"It was registered as {build.simc_version} and is now {version}; register it again.")


def withdraw_unusable() -> dict[Build, str]:
    """Mark the available builds that do not run on this machine as broken; return them with the reasons.

    Builds that this machine lacks are left to other machines, and those whose check failed to the next check.
    Raises UnusableBuild if there are builds and none of them runs, because then this machine is the likely cause.
    """
    available = Build.objects.filter(withdrawn_at=None).defer("profiles", "includable")
    installed = [build for build in available if registry.is_installed(build)]
    unusable: dict[Build, str] = {}
    unchecked: list[Build] = []
    for build in installed:
        try:
            if reason := _reason_not_to_use(build):
                unusable[build] = reason
        except NotChecked as error:
            logger.warning("the build %s was not checked: %s", build, error)
            unchecked.append(build)
    if available and len(unusable) + len(unchecked) == len(installed):
        raise UnusableBuild("No build could be run on this machine, so none was withdrawn.")
    return {build: reason for build, reason in unusable.items() if registry.mark_broken(build, reason)}


def _reason_not_to_use(build: Build) -> str | None:
    """Return why a build cannot be used, or None. A busy machine can fail a check, so it is repeated once."""
    for _ in range(2):
        try:
            require_as_registered(build)
        except UnusableBuild as error:
            reason = str(error)
        else:
            return None
    return reason


def readable_paths(executable: Path, readable: Iterable[Path]) -> list[str]:
    """Return the paths that a build can read, in addition to the system's files: itself and those given.

    Raises UnusableBuild if one contains, or belongs to, the data of jobs, or contains secrets of the machine.
    """
    given, data = list(readable), settings.DATA_DIR.resolve()
    secret = [Path.home().resolve(), *map(Path, SECRET_FOLDERS)]
    # With and without resolved links: a program can use either.
    paths = {executable.resolve(), *(path.absolute() for path in given), *(path.resolve() for path in given)}
    for path in paths:
        if data.is_relative_to(path) or path.is_relative_to(data):
            raise UnusableBuild(f"{path} contains files of jobs, in DATA_DIR. Choose a folder without them.")
        if path.parent == Path("/home") or any(folder.is_relative_to(path) for folder in secret):
            raise UnusableBuild(f"{path} can contain secrets of this machine. Choose a folder with the build only.")
    return sorted(map(str, paths))


def check_profiles(build: Build, folder: Path, *, on_progress: OnProgress = lambda *_: None) -> dict[str, Any]:
    """Check every bundled file and return the build's fields about them.

    Raises UnusableBuild or NotChecked.
    """
    try:
        paths, unusable = bundle.scan(folder)
    except bundle.TooManyFiles as error:
        raise UnusableBuild(str(error)) from error
    whole = Bundle(folder, paths)
    tasks = [partial(_check_file, build, whole, path) for path in paths]
    checked = sorted(_in_parallel(tasks, on_progress), key=attrgetter("path"))
    includable = set[str]().union(*(file.files for file in checked if file.files is not None))
    return {
        "profiles": [file.path for file in checked if file.is_profile and file.reason is None],
        "includable": sorted(includable),
        "ci": _summary(checked, unusable, includable=includable),
    }


def _summary(checked: Iterable[CheckedFile], unusable: dict[str, str], *, includable: set[str]) -> dict[str, Any]:
    """Return the checks of all bundled profiles. Files that start no actor count only if they are refused."""
    failed = [
        {"name": file.path, "reason": file.reason}
        for file in checked
        # A file that uses templates of other files is refused alone, but can be included.
        if file.reason is not None and (file.is_profile or file.path not in includable)
    ]
    failed += [{"name": name, "reason": reason} for name, reason in sorted(unusable.items())]
    passed = sum(file.is_profile and file.reason is None for file in checked)
    checked_at = timezone.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"total": passed + len(failed), "failures": failed, "checked_at": checked_at}


def _in_parallel(tasks: Sequence[Callable[[], CheckedFile]], on_progress: OnProgress) -> Iterator[CheckedFile]:
    """Yield the results of tasks, which run in one thread for each core."""
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as executor:
        pending: set[Future[CheckedFile]] = {executor.submit(task) for task in tasks}
        try:
            while pending:
                done, pending = wait(pending, timeout=PROGRESS_SECONDS)
                yield from (future.result() for future in done)
                on_progress(len(tasks) - len(pending), len(tasks))
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise


def _check_file(build: Build, whole: Bundle, path: str) -> CheckedFile:
    """Check one bundled file together with its includes, and run it if it has anything to simulate."""
    try:
        flat = flatten(whole.read(path), bundle=whole, path=path)
    except (BadInclude, bundle.UnusableFile) as error:
        return CheckedFile(path=path, reason=str(error)[:REASON_CHARACTERS])
    analysis = analyse_submitted(flat.text, rules=Rules(), bounds=input_text.bounds())
    refusal = input_text.refusal(flat, analysis)
    if refusal:
        return CheckedFile(path=path, reason=refusal[:REASON_CHARACTERS])
    files = flat.files | {path}
    reason = _failure(build, flat) if analysis.has_actor else "It does not start a character."
    # Action lists and gear sets only set options of an actor.
    is_profile = bool(analysis.actors or analysis.copies) or reason is None
    return CheckedFile(path=path, files=files, is_profile=is_profile, reason=reason)


def _failure(build: Build, flat: FlatProfile) -> str | None:
    """Run a bundled profile for a few iterations. Return why it does not simulate, or None; raises NotChecked."""
    with private_directory() as directory:
        runner.prepare(directory, f"{flat.text}iterations={PROFILE_ITERATIONS}\ntarget_error=0\n")
        arguments = command.arguments(threads=1, json_version=2, html=False)
        process = runner.simulator(
            build, arguments, directory=directory, threads=1, seconds=PROFILE_SECONDS, on_line=lambda *_: None
        )
        try:
            with process:
                ended = process.wait(PROFILE_SECONDS)
        except NotExecutable as error:
            return f"The build cannot be run: {error}"[:REASON_CHARACTERS]
        except NotStarted as error:
            raise NotChecked(str(error)) from error
        if ended is not None and ended.is_lost:
            raise NotChecked(f"The launcher of {build.executable} died.")
        if ended is None:
            return f"The simulator did not end within {PROFILE_SECONDS} s."
        outputs = Outputs(Job(), directory, scrubber_of(None), stage=None, has_html=False)
        outcome = verdict.outcome_of(Job(), ended, report=outputs.report, asked=Asked(), messages=outputs)
        return None if outcome.status == Status.COMPLETED else outcome.reason
