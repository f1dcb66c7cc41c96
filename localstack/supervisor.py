"""Keeps programs running until told to stop: each in its own session, started again when it ends."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from localstack.console import LocalStackError, tail, tell

START_SECONDS = 30.0
GRACE_SECONDS = 10.0
SHORTEST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 10.0
LASTING_SECONDS = 10.0
"""A program that ran this long did not fail at its start: the next delay is the shortest again."""
POLL_SECONDS = 0.2

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to run, where, and how it wants to be stopped."""

    name: str
    command: Sequence[str]
    folder: Path
    log: Path
    environment: Mapping[str, str]
    user: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL
    """Sent by the kernel when the supervisor dies without stopping its programs."""
    stops_last: bool = False
    """A server that the other programs need until they have ended."""


def shell(line: str) -> list[str]:
    """The command for a Procfile line; `exec` leaves no shell between the supervisor and the program."""
    return ["/bin/sh", "-c", f"exec {line}"]


def _prctl(option: int, argument: int) -> None:
    """Process control that only Linux has; elsewhere a killed supervisor leaves its programs running."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, argument)


def _linked_to_parent(number: signal.Signals) -> Callable[[], None]:
    """For the new process, between fork and exec: the kernel sends it `number` when its parent dies."""
    parent = os.getpid()

    def link() -> None:
        _prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(1)  # the parent died before it could be linked

    return link


class _Child:
    """One program and the process it runs in at the moment."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.delay = 0.0
        self.start()

    def start(self) -> None:
        with self.program.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.program.command,
                cwd=self.program.folder,
                env=dict(self.program.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self.program.user,
                group=self.program.user,
                extra_groups=None if self.program.user is None else [],
                preexec_fn=_linked_to_parent(self.program.orphan_signal),
            )
        self.started_at = time.monotonic()
        self.restart_at: float | None = None

    def send(self, number: signal.Signals) -> None:
        """Signals the whole process group, which outlives its leader while any member is left."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def plan_restart(self) -> float:
        """Seconds until the next start: longer each time it dies soon after its start."""
        now = time.monotonic()
        lasted = now - self.started_at > LASTING_SECONDS
        doubled = SHORTEST_DELAY_SECONDS if lasted else 2 * self.delay
        self.delay = min(max(doubled, SHORTEST_DELAY_SECONDS), LONGEST_DELAY_SECONDS)
        self.restart_at = now + self.delay
        return self.delay


class Supervisor:
    """Starts programs, starts again what ends, and in the end leaves no process behind.

    It has no thread: programs are looked after while `watch` runs. With `adopt_orphans` (Linux) the calling
    process becomes the parent of whatever its programs leave behind, and ends it; only for a process that
    has no other children.
    """

    def __init__(self, *, adopt_orphans: bool = False) -> None:
        self._children: list[_Child] = []
        self._adopts_orphans = adopt_orphans
        if adopt_orphans:
            _prctl(PR_SET_CHILD_SUBREAPER, 1)

    def start(self, program: Program) -> None:
        """Raises OSError when the command cannot be run at all."""
        self._children.append(_Child(program))

    def start_server(self, program: Program, ping: Callable[[], object], *, not_yet: type[Exception]) -> None:
        """Starts `program` and returns when `ping` no longer raises `not_yet`.

        Raises LocalStackError when that has not happened within START_SECONDS.
        """
        self.start(program)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                ping()
            except not_yet as error:
                if time.monotonic() > deadline:
                    raise LocalStackError(f"{program.name} did not start: {error}\n{tail(program.log)}") from error
                self.watch(POLL_SECONDS / 4)
            else:
                return

    def watch(self, seconds: float) -> None:
        """Returns after `seconds`, during which every program that ends is started again."""
        deadline = time.monotonic() + seconds
        while True:
            for child in self._children:
                self._revive(child)
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, POLL_SECONDS))

    def stop(self) -> None:
        """Ends every program, servers last: asked first, killed when still there after the grace time."""
        for last in (False, True):
            _stop([child for child in self._children if child.program.stops_last is last])
        self._children.clear()
        self._end_orphans()

    def _revive(self, child: _Child) -> None:
        if child.restart_at is not None:
            if time.monotonic() >= child.restart_at:
                with suppress(OSError):  # such as no process left on this machine: the next round tries again
                    child.start()
            return
        status = child.process.poll()
        if status is None:
            return
        child.send(signal.SIGKILL)
        self._end_orphans()
        delay = child.plan_restart()
        program = child.program
        tell(f"{program.name} ended (status {status}); starting it again in {delay:.0f} s, see {program.log}")

    def _end_orphans(self) -> None:
        """Kills what a dead program left behind: processes that became ours and are no program's leader."""
        if not self._adopts_orphans:
            return
        leaders = {child.process.pid for child in self._children}
        while orphans := [each for each in psutil.Process().children() if each.pid not in leaders]:
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
