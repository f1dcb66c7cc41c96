"""Registration of a simulator executable as a build: a probe, and checks of all its bundled files."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from django.utils import timezone

from jobs.builds import registry
from jobs.enums import Status
from jobs.models import Build, Job
from jobs.profiles import bundle
from jobs.profiles.analysis import Analysis, analyse_submitted
from jobs.profiles.bundle import Bundle
from jobs.profiles.includes import BadInclude, FlatProfile, flatten
from jobs.profiles.policy import Rules
from jobs.runs import input_text, runner, verdict
from jobs.runs.directories import private_directory
from jobs.runs.outputs import Outputs
from jobs.runs.scrubbing import scrubber_of
from jobs.simulator import command
from jobs.simulator.command import BuildVersion
from jobs.simulator.process import SimulatorNotStarted
from jobs.simulator.sandbox import NotRunnable, require_runnable

PROBE_SECONDS = 30
PROFILE_SECONDS = 120
PROFILE_ITERATIONS = 3
PROGRESS_SECONDS = 5.0
REASON_CHARACTERS = 500

# Called with the number of checked files and the number of all files, every few seconds and at the end.
OnProgress = Callable[[int, int], None]


class UnusableBuild(Exception):
    """An executable that cannot serve as a build; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an executable comes from."""

    git_branch: str
    commit: str
    created_at: datetime
    repo: str = ""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The result for a bundled file: its files (None if it was refused), and why it does not simulate."""

    path: str
    files: frozenset[str] | None = None
    is_profile: bool = False
    reason: str | None = None


def unreported(_done: int, _total: int) -> None:
    """Ignore progress."""


def register(
    executable: Path,
    origin: Origin,
    *,
    readable: Sequence[Path] = (),
    profiles: Path | None = None,
    on_progress: OnProgress = unreported,
) -> Build:
    """Probe an executable and record it as the build of a commit; registering it again updates the record.

    The executable can read its own folder and the paths in `readable`. `profiles` is the folder of its bundled
    files. Raises UnusableBuild if the executable cannot be run in the sandbox, does not print its version, or has
    too many bundled files.
    """
    build = Build(executable=str(executable.resolve()), readable_paths=readable_paths(executable, readable))
    version = version_of(build)
    facts: dict[str, Any] = {
        "simc_version": version.simc_version,
        "wow_version": version.wow_version or "",
        "hotfix_date": version.hotfix_date,
        "created_at": origin.created_at,
        "repo": origin.repo,
        "executable": build.executable,
        "readable_paths": build.readable_paths,
        "profiles_path": "" if profiles is None else str(profiles.resolve()),
        "profiles": [],
        "includable": [],
        "ci": None,
    }
    if profiles is not None:
        facts |= check_profiles(build, profiles.resolve(), on_progress=on_progress)
    recorded, _ = Build.objects.update_or_create(git_branch=origin.git_branch, commit=origin.commit, defaults=facts)
    # A broken build has just passed the probe; a build that an operator withdrew stays withdrawn.
    if registry.restore(Build.objects.filter(registry.BROKEN, pk=recorded.pk)):
        recorded.refresh_from_db()
    return recorded


def require_as_registered(build: Build) -> None:
    """Raise UnusableBuild unless a build runs here and prints the version that was registered."""
    version = version_of(build).simc_version
    if version != build.simc_version:
        raise UnusableBuild(f"It was registered as {build.simc_version} and is now {version}; register it again.")


def version_of(build: Build) -> BuildVersion:
    """Return the version that a build prints. Raises UnusableBuild."""
    printed = probe(build)
    version = command.parse_version_line(printed)
    if version is None:
        last = f" Its last line was: {printed.splitlines()[-1]}" if printed else ""
        raise UnusableBuild(f"{build.executable} ran, but did not print its version.{last}")
    return version


def readable_paths(executable: Path, readable: Iterable[Path]) -> list[str]:
    """Return all that a build may read beside the system's own files."""
    given = list(readable)
    # As they are named and as they are: a program may know itself by either.
    paths = {executable.resolve().parent, *(path.absolute() for path in given), *(path.resolve() for path in given)}
    return sorted(map(str, paths))


def probe(build: Build) -> str:
    """Return all that a build prints when asked for its version in the sandbox. Raises UnusableBuild."""
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
    except (NotRunnable, SimulatorNotStarted) as error:
        raise UnusableBuild(str(error)) from error
    if ended is None:
        raise UnusableBuild(f"{build.executable} did not answer within {PROBE_SECONDS} s.")
    return "\n".join(printed)


def check_profiles(build: Build, folder: Path, *, on_progress: OnProgress = unreported) -> dict[str, Any]:
    """Check every bundled file and return the build's fields about them.

    Raises UnusableBuild.
    """
    try:
        paths, unusable = bundle.scan(folder)
    except bundle.TooManyFiles as error:
        raise UnusableBuild(str(error)) from error
    whole = Bundle(folder, paths)
    checked = sorted(in_parallel([partial(check, build, whole, path) for path in paths], on_progress), key=by_path)
    includable = set[str]().union(*(found.files for found in checked if found.files is not None))
    return {
        "profiles": [found.path for found in checked if found.is_profile and found.reason is None],
        "includable": sorted(includable),
        "ci": checks(checked, unusable, includable=includable),
    }


def by_path(found: Checked) -> str:
    return found.path


def checks(checked: Iterable[Checked], unusable: dict[str, str], *, includable: set[str]) -> dict[str, Any]:
    """Return the checks of all bundled profiles. Files that start no actor count only if they are refused."""
    failed = [
        {"name": found.path, "reason": found.reason}
        for found in checked
        # A file whose templates are defined elsewhere is refused alone, but can be included.
        if found.reason is not None and (found.is_profile or found.path not in includable)
    ]
    failed += [{"name": name, "reason": reason} for name, reason in sorted(unusable.items())]
    passed = sum(found.is_profile and found.reason is None for found in checked)
    checked_at = timezone.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"total": passed + len(failed), "failures": failed, "checked_at": checked_at}


def in_parallel(tasks: Sequence[Callable[[], Checked]], on_progress: OnProgress) -> Iterator[Checked]:
    """Yield the results of tasks, running one for each core at a time."""
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as executor:
        pending: set[Future[Checked]] = {executor.submit(task) for task in tasks}
        try:
            while pending:
                done, pending = wait(pending, timeout=PROGRESS_SECONDS)
                yield from (future.result() for future in done)
                on_progress(len(tasks) - len(pending), len(tasks))
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise


def check(build: Build, whole: Bundle, path: str) -> Checked:
    """Check one bundled file together with its includes, and run it if it has anything to simulate."""
    try:
        flat = flatten(whole.read(path), bundle=whole, path=path)
    except (BadInclude, bundle.UnusableFile) as error:
        return Checked(path=path, reason=str(error)[:REASON_CHARACTERS])
    analysis = analyse_submitted(flat.text, rules=Rules(), bounds=input_text.bounds())
    wrong = input_text.objection(flat, analysis)
    if wrong:
        return Checked(path=path, reason=wrong[:REASON_CHARACTERS])
    files = flat.files | {path}
    reason = failure(build, flat) if analysis.has_actor else "It does not start a character."
    return Checked(path=path, files=files, is_profile=starts_actor(analysis) or reason is None, reason=reason)


def starts_actor(analysis: Analysis) -> bool:
    """Return whether a file starts an actor; action lists and gear sets only set options of one."""
    return bool(analysis.actors or analysis.copies)


def failure(build: Build, flat: FlatProfile) -> str | None:
    """Run a bundled profile for a few iterations and return why it does not simulate, None if it does."""
    with private_directory() as directory:
        runner.prepare(directory, f"{flat.text}iterations={PROFILE_ITERATIONS}\ntarget_error=0\n")
        arguments = command.arguments(threads=1, json_version=2, html=False)
        process = runner.simulator(
            build, arguments, directory=directory, threads=1, seconds=PROFILE_SECONDS, on_line=lambda *_: None
        )
        try:
            with process:
                ended = process.wait(PROFILE_SECONDS)
        except SimulatorNotStarted as error:
            return f"The simulator did not start: {error}"[:REASON_CHARACTERS]
        if ended is None:
            return f"The simulator did not end within {PROFILE_SECONDS} s."
        left = Outputs(Job(), directory, scrubber_of(None), stage=None, has_page=False)
        judged = verdict.judge(Job(), ended, report=left.report, profilesets=0, complaint=left.complaint())
        return None if judged.status == Status.COMPLETED else judged.reason
