"""Whether this worker's machine can run jobs: whether it has free disk space, and its sandbox works.

Otherwise, a worker on a broken machine would claim one job after another, and all of them would fail.
"""

import logging
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

from jobs.artifacts.artifact_files import NotStored
from jobs.errors import GivesUp
from jobs.execution import runner
from sandbox.layers import SandboxUnavailable
from simservice import shutdown
from simservice.telemetry import known_errors

logger = logging.getLogger(__name__)

# What a small job and its logs need
MIN_FREE_BYTES = 16 << 20
# After this many failures in a row, the machine is tested before each claim.
SUSPICIOUS = 2
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 60.0
# A pause, so that a slot whose launcher or storage fails does not fail one job or shard after another.
LOST_PAUSE_SECONDS = 5.0
DISK_FULL = "a disk of this machine is full"
DRAINED = "an operator drained this machine"


class RunLost(GivesUp):
    """The launcher or the supervisor of a simulator died, so its run has no result."""


class MachineFault(GivesUp):
    """This machine cannot run the job, through no fault of the job; the message says why."""

    keeps_deadline = True

    @property
    def requeue_reason(self) -> str:  # type: ignore[override]
        return f"{socket.gethostname()}: {self}"


# Failures for a reason of the machine, or of its way to the storage
FAULTS = (MachineFault, RunLost, NotStored)


class Machine:
    """The state of this process's machine, for all of its slots."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        # Why this worker claims nothing; empty if it does.
        self.problem = ""

    @contextmanager
    def counts_failures(self) -> Iterator[None]:
        """Count a failure of this machine if the block raises one of `FAULTS`.

        Other errors, such as a lost lease or a database that does not respond, say nothing about the machine. A
        file that could not be stored because of this machine, such as its full disk, raises MachineFault.
        """
        try:
            yield
        except FAULTS as error:
            with self._lock:
                self._failures += 1
            if isinstance(error, NotStored) and (problem := known_errors.machine_problem(error)):
                raise MachineFault(problem) from error
            raise

    def record_success(self) -> None:
        """Forget the failures, because a simulator ran and its result was stored."""
        with self._lock:
            self._failures = 0

    @property
    def pause_seconds(self) -> float:
        """Return how long to wait before the next claim. The pause doubles with each failure in a row."""
        if self._failures:
            return float(min(2**self._failures, LONGEST_PAUSE_SECONDS))
        return FIRST_PAUSE_SECONDS if self.problem else 0.0

    def may_claim(self) -> bool:
        """Test the machine, and return whether this worker may claim a job. Otherwise, `problem` says why not."""
        if shutdown.stop.is_drained:
            self.problem = DRAINED
            return False
        problem = self._test()
        if problem and not known_errors.is_repeated(problem):
            logger.error("this worker claims no jobs: %s", problem)
        self.problem = problem
        return not problem

    def require_working(self) -> None:
        """Raise MachineFault if this machine's disks are full or read-only."""
        if problem := _disk_problem(writes=True):
            raise MachineFault(problem)

    def _test(self) -> str:
        """Return what is wrong with the disks or, after failures, with the sandbox."""
        if problem := _disk_problem(writes=self._failures > 0):
            return problem
        try:
            if self._failures >= SUSPICIOUS:
                runner.probe_sandbox()
        except SandboxUnavailable as error:
            return str(error)
        return ""


def _disk_problem(*, writes: bool) -> str:
    """Return what is wrong with the disks, empty if they have space and, if `writes` is set, are writable."""
    try:
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
        folders = [str(settings.DATA_DIR), tempfile.gettempdir()]
        if min(shutil.disk_usage(folder).free for folder in folders) < MIN_FREE_BYTES:
            return DISK_FULL
        if writes:
            for folder in folders:
                _require_writable(folder)
    except OSError as error:
        return known_errors.machine_problem(error) or str(error)
    return ""


def _require_writable(folder: str) -> None:
    """Write a file. Raises OSError."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(4096))
        file.flush()


# Shared by all slots of this process
machine = Machine()
