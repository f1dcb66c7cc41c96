"""Simulator processes with this deployment's sandbox and limits."""

import shutil
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import cast

from django.conf import settings

from jobs.credentials import GameCredentials
from jobs.models import Build, Job
from jobs.runs.directories import private_directory
from jobs.runs.game_api_proxy import GameApiProxy
from jobs.simulator import command
from jobs.simulator.command import BuildVersion
from jobs.simulator.layers import Mode, SandboxUnavailable
from jobs.simulator.private_directory import PrivateDirectory
from jobs.simulator.process import (
    Limits,
    NotExecutable,
    OnLine,
    OnLineEnd,
    Proxy,
    SimulatorNotStarted,
    SimulatorProcess,
    ignore_line_end,
)
from jobs.simulator.sandbox import NotRunnable, Sandbox, require_runnable

LOG_BYTES = 4 << 20
# A job can exceed its cap by this much, even if the worker is late or suspended.
OVERTIME_SECONDS = 2.0
PROCESSES_PER_THREAD = 8
OPEN_FILES = 128
# CPU time is only a second line of defence behind the watched wall time, so it is generous.
CPU_SPARE_SECONDS = 60
PROBE_SECONDS = 30


class UnusableBuild(Exception):
    """An executable cannot be used as a build; the message says why."""


class NotChecked(Exception):
    """A build was not checked, because its sandbox failed; the message says why. Another check can work."""


@cache
def sandbox() -> Sandbox:
    """Return the machine's sandbox, detected once."""
    return Sandbox.for_mode(cast(Mode, settings.SANDBOX))


def probe_sandbox() -> list[str]:
    """Run a program in the sandbox and return the active layers.

    Raises SandboxUnavailable if the machine lacks what `SANDBOX` requires.
    """
    with private_directory() as directory:
        process = SimulatorProcess(
            [shutil.which("true") or "/bin/true"],
            directory=directory,
            sandbox=sandbox(),
            limits=limits(threads=1, seconds=PROBE_SECONDS),
            readable=[],
            on_line=lambda *_: None,
        )
        try:
            with process:
                process.wait(PROBE_SECONDS)
        except SimulatorNotStarted as error:
            raise SandboxUnavailable(
                f"No simulator can run here with SANDBOX={settings.SANDBOX}: {error}. "
                "docs/explanation/security.md says what each layer requires of the machine."
            ) from error
        return process.layers


def limits(*, threads: int, seconds: int) -> Limits:
    """Return the limits of a simulator with `threads` threads that runs for at most `seconds`."""
    return Limits(
        wall_seconds=seconds + OVERTIME_SECONDS,
        cpu_seconds=threads * seconds + CPU_SPARE_SECONDS,
        memory_bytes=settings.SIM_MEMORY_BYTES,
        file_bytes=settings.SIM_DISK_BYTES,
        disk_bytes=settings.SIM_DISK_BYTES,
        processes=16 + threads * PROCESSES_PER_THREAD,
        open_files=OPEN_FILES,
        log_bytes=LOG_BYTES,
        output_bytes=settings.SIM_OUTPUT_BYTES,
    )


def simulator(
    build: Build,
    arguments: Sequence[str],
    *,
    directory: PrivateDirectory,
    threads: int,
    seconds: int,
    on_line: OnLine,
    on_line_end: OnLineEnd = ignore_line_end,
    proxy: Proxy | None = None,
) -> SimulatorProcess:
    """Return a build's process, not started yet. `proxy` is its only way out of the sandbox's network."""
    return SimulatorProcess(
        [build.executable, *arguments],
        directory=directory,
        sandbox=sandbox(),
        limits=limits(threads=threads, seconds=seconds),
        readable=[Path(path) for path in build.readable_paths],
        on_line=on_line,
        on_line_end=on_line_end,
        proxy=proxy,
    )


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
            process = simulator(
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
    except SimulatorNotStarted as error:
        raise NotChecked(str(error)) from error
    if ended is not None and ended.is_lost:
        raise NotChecked(f"The launcher of {build.executable} died.")
    if ended is None:
        raise UnusableBuild(f"{build.executable} did not answer within {PROBE_SECONDS} s.")
    return "\n".join(printed)


def game_api_proxy(job: Job) -> Proxy:
    """Return the proxy through which a job reaches the game API."""
    return partial(GameApiProxy, hosts=settings.GAME_API_HOSTS, job_id=job.pk)


def prepare(directory: PrivateDirectory, text: str, *, credentials: GameCredentials | None = None) -> None:
    """Write a profile and the game credentials into a run's directory.

    The simulator reads the credentials from a file
    (`docs/reference/simulator-command-line.md#options-that-read-files`). The profile already contains its includes.
    """
    (directory.cwd / command.PROFILE_NAME).write_text(text, encoding="utf-8", newline="")
    if credentials is not None:
        file = directory.cwd / command.CREDENTIALS_NAME
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(f"{credentials.client_id}:{credentials.client_secret}\n", encoding="ascii")
