"""One run of a simulator: its start, its watch, its outcome and its end."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from jobs import failure_causes
from jobs.artifacts.credentials import GameCredentials
from jobs.enums import ErrorCode, ShardStatus, Status, StopReason
from jobs.errors import GivesUp, WorkerStops
from jobs.execution import build_probe, runner, shard_files, verdict
from jobs.execution.directories import private_directory
from jobs.execution.lease import Lease, LeaseLost
from jobs.execution.machine import MachineFault, RunLost, machine
from jobs.execution.outputs import Outputs, scrubber_of
from jobs.execution.periodic_thread import PeriodicThread
from jobs.execution.shard_files import ShardResult
from jobs.execution.time_limits import Allowance, TimeLimit
from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.job_moves import ONLY_TRY, Outcome, Try
from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import Build, Job, ShardedStage
from jobs.queue import executables
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
    ignore_line_end,
)
from simc import command
from simc.reports import BrokenReport, Report
from simc.shortfall import Asked
from simservice import shutdown
from simservice.telemetry import tracing

T = TypeVar("T")
logger = logging.getLogger(__name__)

# A file that an operator replaces is missing or busy for a moment.
SECOND_START_SECONDS = 1.0
WATCH_SECONDS = 0.25
UPDATE_SECONDS = 0.5
CANCEL_GRACE_SECONDS = 3.0
# A line of every simulator after the last fight
REPORTS_BEGIN = "Generating reports"
# Stops after which the finished profilesets of a shard are part of the result.
PARTIAL = (StopReason.CANCELLED, StopReason.CEILING, StopReason.OVERTIME)
# Stops at the end of the allowance, by the worker or by the supervisor if the worker is paused.
AT_ALLOWANCE = (StopReason.CEILING, StopReason.OVERTIME)


class BuildBroken(GivesUp):
    """The build cannot be run on this machine; the message says why."""

    requeue_reason = "the build stopped working during the run"


class BuildReplaced(GivesUp):
    """The executable of the build is not the file with which the stage began."""

    requeue_reason = "the build was replaced during the run"


@dataclass(frozen=True, kw_only=True)
class Callbacks:
    """Functions that a run calls: `on_line` and `on_line_end` with the simulator's output, `on_start` once its
    start is recorded, the `actions` twice a second while it runs, and `seconds_left` if its worker stops. That
    estimates how long the simulator still runs; None if unknown.
    """

    on_line: OnLine
    on_line_end: OnLineEnd = ignore_line_end
    on_start: Callable[[], object] | None = None
    actions: Sequence[Callable[[], None]] = ()
    seconds_left: Callable[[], float | None] = lambda: None


class SimulatorRun:
    """Runs one simulator: a try of one shard of a stage, for the slot that claimed the job or for a helper."""

    def __init__(
        self,
        job: Job,
        build: Build,
        limit: TimeLimit,
        callbacks: Callbacks,
        *,
        stage: int,
        shard: Try = ONLY_TRY,
    ) -> None:
        self.job, self.build, self.limit, self.callbacks = job, build, limit, callbacks
        self.stage, self.shard = stage, shard
        self.lease: Lease = limit.lease
        self.run_id = 0
        # Whether the process must stop, and whether it began to write its reports before that.
        self.must_stop = self.is_reporting = False

    def run(
        self,
        directory: PrivateDirectory,
        text: str,
        *,
        arguments: Sequence[str],
        credentials: GameCredentials | None = None,
        require_build: Callable[[], None] | None = None,
    ) -> Ended:
        """Run the simulator on the whole input `text`, and record its start.

        `require_build` raises BuildReplaced unless the process runs the expected file. Raises LeaseLost,
        WorkerStops, JobPaused, BuildBroken, BuildReplaced, RunLost or MachineFault.
        """
        runner.prepare(directory, text, credentials=credentials)
        with (
            tracing.span("run", stage=self.stage, shard=self.shard.number, build=str(self.build.pk)),
            closing(self._started(directory, arguments)) as process,
        ):
            self.limit.started = time.monotonic()
            if require_build is not None:
                require_build()
            start = partial(job_moves.start_run, self.job, build=self.build, stage=self.stage, shard=self.shard)
            run_id = self.lease.retry(start)
            if run_id is None:
                raise LeaseLost
            self.run_id = run_id
            if self.callbacks.on_start is not None:
                self.callbacks.on_start()
            ended = self._watch(process)
            tracing.note(exit_code=verdict.exit_code(ended), stopped_for=ended.stopped_for)
        if ended.is_lost:
            # The sweep, or the conductor, marks the run as lost.
            raise RunLost(f"the launcher of stage {self.stage}, shard {self.shard.number} died")
        return ended

    def _started(self, directory: PrivateDirectory, arguments: Sequence[str]) -> ConfinedProcess:
        """Return the process. Raises LeaseLost, RunLost, MachineFault if the sandbox fails, or BuildBroken."""
        return tried_twice(partial(self._start, directory, arguments), NotRunnable, NotExecutable, lease=self.lease)

    def _start(self, directory: PrivateDirectory, arguments: Sequence[str]) -> ConfinedProcess:
        """Start the process. Raises RunLost, MachineFault, NotRunnable or NotExecutable."""
        require_runnable(Path(self.build.executable), readable=[Path(path) for path in self.build.readable_paths])
        process = runner.simulator(
            self.build,
            arguments,
            directory=directory,
            threads=self.job.vcpus,
            seconds=self.limit.most_seconds,
            on_line=self._on_line,
            on_line_end=self.callbacks.on_line_end,
            proxy=runner.game_api_proxy(self.job) if self.job.has_credentials else None,
        )
        try:
            process.start()
        except LauncherLost as error:
            raise RunLost(str(error)) from error
        except NotExecutable:
            raise
        except NotStarted as error:
            logger.error("the sandbox does not start: %s", error)
            raise MachineFault("the sandbox does not start") from error
        return process

    def _on_line(self, stream: str, text: str) -> None:
        if stream == "stdout" and text.startswith(REPORTS_BEGIN) and not self.must_stop:
            self.is_reporting = True
        self.callbacks.on_line(stream, text)

    def _watch(self, process: ConfinedProcess) -> Ended:
        """Wait for the end of the process, and stop it when its limit says so.

        Everything that can be slow is done by a second thread, so it cannot delay a deadline. Raises LeaseLost,
        WorkerStops or JobPaused.
        """
        limit, name = self.limit, f"watcher-{self.job.pk}"
        # The process is closed before the block waits for the thread, which can hang.
        with (
            PeriodicThread(*self.callbacks.actions, limit.update, seconds=UPDATE_SECONDS, name=name),
            closing(process),
        ):
            while (ended := process.wait(min(WATCH_SECONDS, max(0.0, limit.seconds_left)))) is None:
                self.lease.require()
                self._require_time()
                self.lease.require_unpaused()
                if reason := limit.stop_reason():
                    return self._stop(process, reason)
        return ended

    def _require_time(self) -> None:
        """Raise WorkerStops if the worker ends before the simulator would. Another one then starts at once."""
        if shutdown.stop.is_ending:
            left = self.callbacks.seconds_left()
            if not shutdown.stop.has_time() or (left is not None and left > shutdown.stop.seconds_left):
                raise WorkerStops

    def _stop(self, process: ConfinedProcess, reason: StopReason) -> Ended:
        """Stop the process and return how it ended."""
        self.must_stop = True
        grace = CANCEL_GRACE_SECONDS if reason == StopReason.CANCELLED else self.limit.cap_grace_seconds
        ended = process.stop(reason, grace_seconds=grace)
        if ended is None:
            raise RuntimeError("the simulator could not be stopped")
        return ended

    def outcome(self, ended: Ended, outputs: Outputs, *, report: Report | BrokenReport, asked: Asked) -> Outcome:
        """Return the outcome that the job would have if this were its only run.

        Raises BuildBroken or RunLost if the build cannot be run, or MachineFault if this machine's disks fail.
        """
        if ended.exit_status in failure_causes.NO_PROGRAM and ended.stopped_for is None:
            _require_working(self.build)
        outcome = verdict.outcome_of(
            self.job,
            ended,
            report=report,
            asked=asked,
            messages=outputs,
            has_html=outputs.has_html,
            fights_done=self.is_reporting,
        )
        if outcome.error_code == ErrorCode.EXECUTION_FAILED:
            machine.require_working()
        return outcome

    def end_fields(self, ended: Ended) -> dict[str, Any]:
        """Return the values to record at the end of the run, by the names of the statements' parameters."""
        return {
            "run_id": self.run_id,
            "wall_ms": round(ended.wall_seconds * 1000),
            "cpu_ms": round(ended.cpu_seconds * 1000),
            "peak_memory_bytes": ended.peak_memory_bytes,
            "exit_code": verdict.exit_code(ended),
            "stopped_for": ended.stopped_for or "",
            "layers": json.dumps(ended.layers),
        }


class ShardRun(SimulatorRun):
    """Runs a claimed shard of a stage, stores its report and logs for the conductor, and ends it."""

    def __init__(
        self, shard: ClaimedShard, stage: ShardedStage, allowance: Allowance, callbacks: Callbacks
    ) -> None:
        super().__init__(stage.job, stage.build, allowance, callbacks, stage=stage.stage, shard=shard)
        self.claimed, self.sharded, self.allowance = shard, stage, allowance

    def run_shard(self, text: str) -> None:
        """Run the shard to its end, or return it to the queue if its allowance ended too early.

        Raises LeaseLost, WorkerStops, BuildBroken, BuildReplaced, RunLost, MachineFault or NotStored.
        """
        with private_directory() as directory:
            ended = self.run(
                directory, text, arguments=arguments_of(self.job), require_build=self._require_same_build
            )
            self.lease.require()
            if ended.stopped_for in AT_ALLOWANCE and self.lease.retry(self.allowance.has_more_time):
                # The stage lacked time only for a moment, or the database did not respond.
                self.lease.retry(partial(shard_moves.return_shard, self.claimed, losses=0))
                return
            self._end(ended, self._store(directory, ended))

    def _require_same_build(self) -> None:
        """Raise BuildReplaced unless the process runs the file with which the stage began."""
        if not executables.is_same(self.sharded):
            raise BuildReplaced(f"{self.build.executable} was replaced")

    def _store(self, directory: PrivateDirectory, ended: Ended) -> ShardResult:
        """Store the files of the ended process, and return its result. Raises NotStored or WorkerStops."""
        outputs = Outputs(self.job, directory, scrubber_of(None), stage=self.stage, has_html=False)
        report = outputs.report
        # With one iteration, profilesets of the first shard may do no damage, and are then left out. The conductor
        # checks the iterations, and all profilesets together.
        asked = Asked(profilesets=self.claimed.profilesets if self.shard.number else 0)
        outcome = self.outcome(ended, outputs, report=report, asked=asked)
        has_report = not isinstance(report, BrokenReport)
        contents = outputs.shard_files(with_report=has_report)
        digests = shard_files.store(
            self.sharded, contents, number=self.shard.number, try_number=self.shard.try_number
        )
        return ShardResult(
            status=outcome.status,
            error_code=outcome.error_code,
            reason=outcome.reason,
            exit_code=verdict.exit_code(ended),
            stopped_for=ended.stopped_for,
            has_report=has_report,
            warnings=[*outputs.version_warnings(self.build), *outputs.warnings()],
            digests=digests if self.sharded.created_by_attempt else {},
        )

    def _end(self, ended: Ended, result: ShardResult) -> None:
        """End the shard; if it belongs to another try, remove its files. Raises LeaseLost."""
        status = ShardStatus.DONE
        if result.status != Status.COMPLETED:
            is_stopped = ended.stopped_for in (*PARTIAL, StopReason.SHARD_FAILED)
            status = ShardStatus.STOPPED if is_stopped else ShardStatus.FAILED
        end = partial(
            shard_moves.end_shard,
            self.claimed,
            status,
            result=result.as_json(),
            # A process that was stopped because another shard failed is not billed.
            billed_ms=0 if ended.stopped_for == StopReason.SHARD_FAILED else round(ended.wall_seconds * 1000),
            run_fields=self.end_fields(ended),
        )
        if not self.lease.retry(end):
            shard_files.remove(self.sharded, number=self.shard.number, try_number=self.shard.try_number)
            raise LeaseLost


def tried_twice(action: Callable[[], T], *errors: type[Exception], lease: Lease) -> T:
    """Return what an action on the build's file returns; if it fails with one of the errors, try once more.

    Raises LeaseLost, or BuildBroken if it fails twice.
    """
    try:
        return action()
    except errors as error:
        logger.warning("a build cannot be used; trying again: %s", error)
    lease.pause(SECOND_START_SECONDS)
    try:
        return action()
    except errors as error:
        raise BuildBroken(str(error)) from error


def arguments_of(job: Job, *, has_html: bool = False) -> list[str]:
    """Return the simulator's arguments for a job."""
    return command.arguments(
        threads=job.vcpus,
        json_version=cast(Literal[2, 3], job.json_version),
        html=has_html,
        has_credentials=job.has_credentials,
    )


def _require_working(build: Build) -> None:
    """Raise BuildBroken unless the build prints its version, which does not depend on the job, or RunLost."""
    try:
        build_probe.version_of(build)
    except build_probe.UnusableBuild as error:
        raise BuildBroken(str(error)) from error
    except build_probe.NotChecked as error:
        raise RunLost(str(error)) from error
