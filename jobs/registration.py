"""Taking in a simulator executable as a build: probing it, and running each of its bundled profiles once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from jobs import builds, runner
from jobs.models import Build
from jobs.profiles.grammar import tokens
from jobs.profiles.policy import Refusal, Rules
from jobs.run_directories import private_directory
from jobs.simulator import command, reports
from jobs.simulator.command import BuildVersion
from jobs.simulator.process import SimulatorNotStarted
from jobs.simulator.sandbox import NotRunnable, PrivateDirectory, UnsafeProduct, open_product, require_runnable
from simservice.api.fields import iso

PROBE_SECONDS = 30
PROFILE_SECONDS = 120
PROFILE_ITERATIONS = 3
MAX_BUNDLED_BYTES = 2 << 20


class UnusableBuild(Exception):
    """An executable that cannot serve as a build; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an executable comes from."""

    git_branch: str
    commit: str
    created_at: datetime
    repo: str = ""


def register(
    executable: Path, origin: Origin, *, readable: Sequence[Path] = (), profiles: Path | None = None
) -> Build:
    """Probe an executable and record it as the build of a commit; registering it again updates the record.

    The executable's own folder is readable to it, and what `readable` and `profiles` add. Each bundled profile is
    really run; those that would not simulate are left out. Raises UnusableBuild when the executable cannot be run
    in the sandbox or does not say which version it is.
    """
    build = Build(
        executable=str(executable.resolve()),
        readable_paths=readable_paths(executable, readable, profiles),
        profiles_path="" if profiles is None else str(profiles.resolve()),
    )
    version = version_of(build)
    facts: dict[str, Any] = {
        "simc_version": version.simc_version,
        "wow_version": version.wow_version or "",
        "hotfix_date": version.hotfix_date,
        "created_at": origin.created_at,
        "repo": origin.repo,
        "executable": build.executable,
        "readable_paths": build.readable_paths,
        "profiles_path": build.profiles_path,
    }
    if profiles is not None:
        facts |= check_profiles(build, profiles)
    recorded, _ = Build.objects.update_or_create(git_branch=origin.git_branch, commit=origin.commit, defaults=facts)
    # What a worker found broken has just been probed; what an operator withdrew stays so.
    if builds.restore(Build.objects.filter(builds.BROKEN, pk=recorded.pk)):
        recorded.refresh_from_db()
    return recorded


def require_as_registered(build: Build) -> None:
    """Raise UnusableBuild unless a build runs here and is of the version that was registered."""
    version = version_of(build).simc_version
    if version != build.simc_version:
        raise UnusableBuild(f"It was registered as {build.simc_version} and is now {version}; register it again.")


def version_of(build: Build) -> BuildVersion:
    """Return what a build's version line tells. Raises UnusableBuild."""
    printed = probe(build)
    version = command.parse_version_line(printed)
    if version is None:
        said = f" It said: {printed.splitlines()[-1]}" if printed else ""
        raise UnusableBuild(f"{build.executable} ran, but printed no version line.{said}")
    return version


def readable_paths(executable: Path, readable: Iterable[Path], profiles: Path | None) -> list[str]:
    """Return all that a build may read beside the system's own files."""
    given = [*readable, *([profiles] if profiles is not None else [])]
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


def check_profiles(build: Build, folder: Path) -> dict[str, Any]:
    """Run every profile below a folder; return the manifest of those that simulate, and the verdict on all."""
    files = sorted(path.relative_to(folder) for path in folder.rglob("*.simc") if path.is_file())
    names = frozenset(str(path) for path in files) | {path.name for path in files}
    manifest, failed = [], []
    for path in files:
        works = is_harmless(folder / path, bundled=names) and working_name(build, path)
        manifest.extend([works] if works else [])
        failed.extend([] if works else [str(path)])
    failures = [{"name": name, "reason": ""} for name in failed]
    return {
        "profiles": manifest,
        "ci": {"total": len(files), "failures": failures, "checked_at": iso(timezone.now())},
    }


def is_harmless(profile: Path, *, bundled: frozenset[str]) -> bool:
    """Tell whether a bundled profile asks for nothing that a submitted one might not: some write files."""
    if profile.stat().st_size > MAX_BUNDLED_BYTES:
        return False
    text = profile.read_text(encoding="utf-8", errors="replace")
    return not any(isinstance(found, Refusal) for found in Rules(bundled=bundled).judge(tokens(text)))


def working_name(build: Build, profile: Path) -> str | None:
    """Return the name under which a bundled profile simulates: its file name, else its path, else None."""
    names = dict.fromkeys([profile.name, str(profile)])
    return next((name for name in names if simulates(build, name)), None)


def simulates(build: Build, name: str) -> bool:
    """Run one bundled profile for a few iterations and tell whether it left a report with an actor."""
    with private_directory() as directory:
        runner.prepare(directory, f'"input={name}"\niterations={PROFILE_ITERATIONS}\ntarget_error=0\n', build=build)
        arguments = command.arguments(threads=1, json_version=2, html=False)
        process = runner.simulator(
            build, arguments, directory=directory, threads=1, seconds=PROFILE_SECONDS, on_line=lambda *_: None
        )
        with process:
            ended = process.wait(PROFILE_SECONDS)
        return ended is not None and ended.exit_status == 0 and has_report(directory)


def has_report(directory: PrivateDirectory) -> bool:
    """Tell whether a run left a report that can be read."""
    try:
        stream = open_product(directory.cwd, command.REPORT_NAME, max_bytes=settings.SIM_OUTPUT_BYTES)
        if stream is None:
            return False
        with stream:
            reports.read_report(stream, max_bytes=settings.SIM_OUTPUT_BYTES)
    except (reports.BrokenReport, UnsafeProduct):
        return False
    return True
