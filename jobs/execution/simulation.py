"""The start of a simulator process on a build, and how the process is watched until it ends."""

import contextlib
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from jobs.enums import StopReason
from jobs.execution import build_probe, runner, verdict
from jobs.execution.periodic_thread import PeriodicThread
from jobs.models import Build, Job
from sandbox.confinement import NotRunnable, require_runnable
from sandbox.private_directory import PrivateDirectory
from sandbox.process import (
    ConfinedProcess,
    Ended,
    LauncherLost,
    NotExecutable,
    NotStarted,
    OnLine,
    OnLineEnd,
)
from simservice import shutdown

logger = logging.getLogger(__name__)

# A file that an operator replaces is missing or busy for a moment.
SECOND_START_SECONDS = 1.0
WATCH_SECONDS = 0.25
UPDATE_SECONDS = 0.5
# A job may exceed its cap by two seconds, including the delay of the watch.
CAP_GRACE_SECONDS = 1.5
CANCEL_GRACE_SECONDS = 3.0


class BuildBroken(Exception):
    """The build cannot be run on this machine; the message says why."""


class RunLost(Exception):
    """The launcher or the supervisor of a simulator died, so the attempt has no result."""


class MachineFault(Exception):
    """This machine cannot run the job, through no fault of the job; the message says why."""


class Holder(Protocol):
    """The lease of a job or of a shard."""

    def require(self) -> None:
        """Raise LeaseLost if the lease is lost."""

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than the lease is held. Raises LeaseLost."""


class Limit(Protocol):
    """When a process must stop: its budget and the requests to stop it."""

    @property
    def seconds_left(self) -> float:
        """Return how much longer the process may run."""

    @property
    def cap_grace_seconds(self) -> float:
        """Return how long the simulator may take to write its report after its time is over."""

    def stop_reason(self) -> StopReason | None:
        """Return why the process must stop now, or None."""


def start(launch: Callable[[], ConfinedProcess], *, holder: Holder) -> ConfinedProcess:
    """Return the process that `launch` starts; if the build's file fails, try once more.

    Raises LeaseLost, RunLost, MachineFault if the sandbox fails, or BuildBroken if the file fails twice.
    """
    try:
        return _launched(launch)
    except (NotRunnable, NotExecutable) as error:
        logger.warning("a build did not start; trying again: %s", error)
    holder.pause(SECOND_START_SECONDS)
    try:
        return _launched(launch)
    except (NotRunnable, NotExecutable) as error:
        raise BuildBroken(str(error)) from error


def _launched(launch: Callable[[], ConfinedProcess]) -> ConfinedProcess:
    """Return the process that `launch` starts. Raises RunLost, MachineFault, NotRunnable or NotExecutable."""
    try:
        return launch()
    except LauncherLost as error:
        raise RunLost(str(error)) from error
    except NotExecutable:
        raise
    except NotStarted as error:
        logger.error("the sandbox does not start: %s", error)
        raise MachineFault("the sandbox does not start") from error


def start_once(
    build: Build,
    arguments: Sequence[str],
    *,
    job: Job,
    directory: PrivateDirectory,
    seconds: int,
    on_line: OnLine,
    on_line_end: OnLineEnd,
) -> ConfinedProcess:
    """Start a process that runs for at most `seconds`.

    Raises NotRunnable, or NotStarted if the sandbox fails too.
    """
    require_runnable(Path(build.executable), readable=[Path(path) for path in build.readable_paths])
    process = runner.simulator(
        build,
        arguments,
        directory=directory,
        threads=job.vcpus,
        seconds=seconds,
        on_line=on_line,
        on_line_end=on_line_end,
        proxy=runner.game_api_proxy(job) if job.has_credentials else None,
    )
    process.start()
    return process


def require_working(build: Build) -> None:
    """Raise BuildBroken unless the build prints its version, which does not depend on the job, or RunLost."""
    try:
        build_probe.version_of(build)
    except build_probe.UnusableBuild as error:
        raise BuildBroken(str(error)) from error
    except build_probe.NotChecked as error:
        raise RunLost(str(error)) from error


def run_fields(run_id: int, ended: Ended) -> dict[str, Any]:
    """Return the values to record for a run that has ended, by the names of the statements' parameters."""
    return {
        "run_id": run_id,
        "wall_ms": round(ended.wall_seconds * 1000),
        "cpu_ms": round(ended.cpu_seconds * 1000),
        "peak_memory_bytes": ended.peak_memory_bytes,
        "exit_code": verdict.exit_code(ended),
        "stopped_for": ended.stopped_for or "",
        "layers": json.dumps(ended.layers),
    }


def watch(
    process: ConfinedProcess, *, holder: Holder, limit: Limit, actions: Sequence[Callable[[], None]], name: str
) -> Ended:
    """Wait for the end of a process, and stop it when its limit says so. Raises LeaseLost or WorkerStops.

    A second thread repeats the `actions`, which can be slow, so they cannot delay a deadline.
    """
    # The process is closed before the block waits for the thread, which can hang.
    with PeriodicThread(*actions, seconds=UPDATE_SECONDS, name=name), contextlib.closing(process):
        while (ended := process.wait(min(WATCH_SECONDS, max(0.0, limit.seconds_left)))) is None:
            holder.require()
            shutdown.stop.require_time()
            if reason := limit.stop_reason():
                return _stop(process, reason, cap_grace_seconds=limit.cap_grace_seconds)
    return ended


def _stop(process: ConfinedProcess, reason: StopReason, *, cap_grace_seconds: float) -> Ended:
    """Stop a process and return how it ended."""
    grace = CANCEL_GRACE_SECONDS if reason == StopReason.CANCELLED else cap_grace_seconds
    ended = process.stop(reason, grace_seconds=grace)
    if ended is None:
        raise RuntimeError("the simulator could not be stopped")
    return ended
