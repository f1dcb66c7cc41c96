"""A supervisor of programs: each runs in its own session and is restarted when it ends."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from localstack.console import LocalStackError, print_message, tail

START_SECONDS = 30.0
GRACE_SECONDS = 10.0
MIN_DELAY_SECONDS = 1.0
MAX_DELAY_SECONDS = 10.0
STABLE_SECONDS = 10.0  # A program that ran longer than this restarts at once.
POLL_SECONDS = 0.2

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program to run, and the signals that stop it."""

    name: str
    command: Sequence[str]
    folder: Path
    log: Path
    environment: Mapping[str, str]
    descriptors: Sequence[int] = ()  # File descriptors that it inherits.
    user: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    # Sent by the kernel if the supervisor dies without stopping its programs.
    orphan_signal: signal.Signals = signal.SIGKILL
    stops_last: bool = False  # Whether other programs need this one until they have ended.


def shell(line: str) -> list[str]:
    """Return the command for a line of the Procfile. `exec` replaces the shell with the program."""
    return ["/bin/sh", "-c", f"exec {line}"]


def shell_with_socket(line: str, listener: socket.socket) -> list[str]:
    """Return the command for a line of the Procfile. It receives a listening socket, as if from systemd."""
    return ["/bin/sh", "-c", f"exec 3<&{listener.fileno()}; LISTEN_FDS=1 LISTEN_PID=$$ exec {line}"]


def _prctl(option: int, argument: int) -> None:
    """Call `prctl`, which only Linux has. On other systems, programs outlive a killed supervisor."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, argument)


class _Child:
    """A program and its current process."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.delay = 0.0
        self.start()

    def start(self) -> None:
        parent = os.getpid()

        def end_with_parent() -> None:
            _prctl(PR_SET_PDEATHSIG, self.program.orphan_signal)
            if os.getppid() != parent:
                os._exit(1)  # the parent died before the call

        with self.program.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.program.command,
                cwd=self.program.folder,
                env=dict(self.program.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.program.descriptors,
                user=self.program.user,
                group=self.program.user,
                extra_groups=None if self.program.user is None else [],
                preexec_fn=end_with_parent,
            )
        self.started_at = time.monotonic()
        self.restart_at: float | None = None

    def send(self, number: signal.Signals) -> None:
        """Signal the whole process group, even if its leader has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def plan_restart(self) -> None:
        """Schedule the next start. The delay doubles if the program ended early."""
        now = time.monotonic()
        was_stable = now - self.started_at > STABLE_SECONDS
        self.delay = 0.0 if was_stable else min(max(2 * self.delay, MIN_DELAY_SECONDS), MAX_DELAY_SECONDS)
        self.restart_at = now + self.delay


class Supervisor:
    """Starts programs, restarts those that end, and finally stops them all.

    It has no thread: programs are restarted only while `watch` runs. With `adopt_orphans` (Linux), this process
    becomes the parent of all processes that its programs leave behind, and kills them; use it only in a process
    without other children.
    """

    def __init__(self, *, adopt_orphans: bool = False) -> None:
        self._children: list[_Child] = []
        self._running: list[subprocess.Popen[bytes]] = []
        self._adopts_orphans = adopt_orphans
        if adopt_orphans:
            _prctl(PR_SET_CHILD_SUBREAPER, 1)

    def start(self, program: Program) -> None:
        """Start a program. Raises OSError if the command cannot be run."""
        self._children.append(_Child(program))

    def start_server(self, program: Program, ping: Callable[[], object], *, not_yet: type[Exception]) -> None:
        """Start `program` and wait until `ping` no longer raises `not_yet`. Raises LocalStackError."""
        self.start(program)
        self.wait_for(program.name, ping, not_yet=not_yet, seconds=START_SECONDS, logs=lambda: [program.log])

    def wait_for(
        self,
        name: str,
        ping: Callable[[], object],
        *,
        not_yet: type[Exception],
        seconds: float,
        logs: Callable[[], Sequence[Path]],
    ) -> None:
        """Wait until `ping` no longer raises `not_yet`. Raises LocalStackError with the end of the logs."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                ping()
            except not_yet as error:
                if time.monotonic() > deadline:
                    tails = "\n".join(map(tail, logs()))
                    raise LocalStackError(f"{name} did not start: {error}\n{tails}") from error
                self.watch(POLL_SECONDS / 4)
            else:
                return

    def run(self, command: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> int:
        """Run a command with this process's output while the programs are watched; return its exit status."""
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        )
        self._running.append(process)
        try:
            while process.poll() is None:
                self.watch(POLL_SECONDS / 4)
        finally:
            process.kill()
            process.wait()
            self._running.remove(process)
        return process.returncode

    def watch(self, seconds: float) -> None:
        """Restart every program that ends, for `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            for child in self._children:
                self._restart_if_ended(child)
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, POLL_SECONDS))

    def stop(self) -> None:
        """Stop every program, servers last. Kill those that are still running after GRACE_SECONDS."""
        for last in (False, True):
            _stop([child for child in self._children if child.program.stops_last is last])
        self._children.clear()
        self._kill_orphans()

    def _restart_if_ended(self, child: _Child) -> None:
        if child.restart_at is not None:
            if time.monotonic() >= child.restart_at:
                with suppress(OSError):  # for example too many processes; the next round retries
                    child.start()
            return
        status = child.process.poll()
        if status is None:
            return
        child.send(signal.SIGKILL)
        self._kill_orphans()
        child.plan_restart()
        name, log = child.program.name, child.program.log
        print_message(f"{name} ended with status {status}. Restarting in {child.delay:.0f} s. Log: {log}")

    def _kill_orphans(self) -> None:
        """Kill processes that ended programs left behind: children of this process that it did not start."""
        if not self._adopts_orphans:
            return
        own = {process.pid for process in (*self._running, *(child.process for child in self._children))}
        while orphans := [each for each in psutil.Process().children() if each.pid not in own]:
            for orphan in orphans:
                orphan.kill()
            psutil.wait_procs(orphans)


def _stop(children: Sequence[_Child]) -> None:
    for child in children:
        child.send(child.program.stop_signal)
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and any(child.process.poll() is None for child in children):
        time.sleep(POLL_SECONDS / 4)
    for child in children:
        child.send(signal.SIGKILL)
        child.process.wait()
