"""Simulator processes with this deployment's sandbox and limits."""

import shutil
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import cast

from django.conf import settings

from jobs.artifacts.credentials import GameCredentials
from jobs.execution.directories import private_directory
from jobs.execution.game_api_proxy import GameApiProxy
from jobs.models import Build, Job
from sandbox.confinement import Sandbox
from sandbox.layers import Mode, SandboxUnavailable
from sandbox.private_directory import PrivateDirectory
from sandbox.process import ConfinedProcess, NotStarted, OnLine, OnLineEnd, Proxy, RunLimits, ignore_line_end
from simc import command
from simc.progress import parse_update

LOG_BYTES = 4 << 20
# A job can exceed its cap by this much, even if the worker is late or suspended.
OVERTIME_SECONDS = 2.0
PROCESSES_PER_THREAD = 8
OPEN_FILES = 128
# CPU time is only a second line of defence behind the watched wall time, so it is generous.
CPU_SPARE_SECONDS = 60
PROBE_SECONDS = 30


@cache
def sandbox() -> Sandbox:
    """Return the machine's sandbox, detected once."""
    return Sandbox.for_mode(cast(Mode, settings.SANDBOX))


def probe_sandbox() -> list[str]:
    """Run a program in the sandbox and return the active layers.

    Raises SandboxUnavailable if the machine lacks what `SANDBOX` requires.
    """
    with private_directory() as directory:
        process = ConfinedProcess(
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
        except NotStarted as error:
            raise SandboxUnavailable(
                f"No simulator can run here with SANDBOX={settings.SANDBOX}: {error}. "
                "docs/explanation/security.md says what each layer requires of the machine."
            ) from error
        return process.layers


def limits(*, threads: int, seconds: int) -> RunLimits:
    """Return the limits of a simulator with `threads` threads that runs for at most `seconds`."""
    return RunLimits(
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
) -> ConfinedProcess:
    """Return a build's process, not started yet. `proxy` is its only way out of the sandbox's network."""
    return ConfinedProcess(
        [build.executable, *arguments],
        directory=directory,
        sandbox=sandbox(),
        limits=limits(threads=threads, seconds=seconds),
        readable=[Path(path) for path in build.readable_paths],
        on_line=on_line,
        on_line_end=on_line_end,
        proxy=proxy,
        proxy_port=command.PROXY_PORT,
        # After a stop, the last progress bar is full, whatever was done.
        is_misleading_after_stop=lambda text: parse_update(text) is not None,
    )


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
