"""One try of a shard: its simulator process, its files and its end, for helpers and conductors."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import BinaryIO, Literal, TypeVar, cast

from django.db import Error as DatabaseError
from django.db import connection

from jobs.enums import ErrorCode, ShardStatus, Status, StopReason
from jobs.execution import runner, shard_files, simulation, verdict
from jobs.execution.directories import private_directory
from jobs.execution.lease import LeaseLost
from jobs.execution.machine import machine
from jobs.execution.outputs import Outputs
from jobs.execution.scrubbing import scrubber_of
from jobs.execution.shard_lease import ShardLease
from jobs.execution.shard_results import ShardResult
from jobs.execution.simulation import RunLost
from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import Artifact, ShardedStage
from jobs.queue import executables
from jobs.results import blame
from sandbox.private_directory import PrivateDirectory
from sandbox.process import ConfinedProcess, Ended, OnLine, OnLineEnd, ignore_line_end
from simc import command
from simc.reports import BrokenReport
from simc.shortfall import Asked
from simservice.telemetry import tracing

logger = logging.getLogger(__name__)

T = TypeVar("T")
RETRY_SECONDS = 0.5
# Stops after which the finished profilesets are part of the result.
PARTIAL = (StopReason.CANCELLED, StopReason.CEILING, StopReason.OVERTIME)
# Stops at the end of the allowance, by the worker or by the supervisor if the worker is paused.
AT_ALLOWANCE = (StopReason.CEILING, StopReason.OVERTIME)


class BuildReplaced(Exception):
    """The executable of the build is not the file with which the stage began."""


class ShardRun:
    """Runs a claimed shard, stores its report and logs, and ends it.

    `text` is the whole input. `on_line` and `on_line_end` receive the simulator's output. `on_start` is called
    once its start is recorded, and `actions` are repeated while it runs.
    """

    def __init__(
        self,
        shard: ClaimedShard,
        stage: ShardedStage,
        lease: ShardLease,
        *,
        text: str,
        on_line: OnLine,
        on_line_end: OnLineEnd = ignore_line_end,
        on_start: Callable[[], object] | None = None,
        actions: Sequence[Callable[[], None]] = (),
    ) -> None:
        self.shard, self.stage, self.lease = shard, stage, lease
        self.job = stage.job
        self.text = text
        self.on_line, self.on_line_end = on_line, on_line_end
        self.on_start, self.actions = on_start, actions

    def run(self) -> None:
        """Run the shard to its end, or return it to the queue if its allowance ended too early.

        Raises LeaseLost, WorkerStops, BuildBroken, BuildReplaced, RunLost, MachineFault or NotStored.
        """
        with private_directory() as directory:
            runner.prepare(directory, self.text)
            run_id, ended = self._simulate(directory)
            self.lease.require()
            if ended.stopped_for in AT_ALLOWANCE and self._retry(self.lease.has_more_time):
                # The stage lacked time only for a moment, or the database did not respond.
                self._retry(partial(shard_moves.give_back, self.shard, losses=0))
                return
            self._conclude(directory, run_id, ended)

    def _simulate(self, directory: PrivateDirectory) -> tuple[int, Ended]:
        """Run the simulator process and record its start. Raises LeaseLost, RunLost and what `_start` raises."""
        stage, build = self.stage.stage, str(self.stage.build_id)
        with (
            tracing.span("run", stage=stage, shard=self.shard.number, build=build),
            closing(self._start(directory)) as process,
        ):
            self.lease.started = time.monotonic()
            self._require_same_build()
            run_id = self._retry(self._record_start)
            if run_id is None:
                raise LeaseLost(self.job.pk)
            if self.on_start is not None:
                self.on_start()
            actions = (self.lease.renew_early, *self.actions)
            ended = simulation.watch(
                process, holder=self.lease, limit=self.lease, actions=actions, name=f"watcher-{self.job.pk}"
            )
            tracing.note(exit_code=verdict.exit_code(ended), stopped_for=ended.stopped_for)
        if ended.is_lost:
            raise RunLost(f"the launcher of shard {self.shard.number} died")
        if ended.exit_status in blame.NO_PROGRAM and ended.stopped_for is None:
            simulation.require_working(self.stage.build)
        return run_id, ended

    def _record_start(self) -> int | None:
        """Record the run and return its id, None if the try is void. The job's first run moves it to running."""
        if self.job.status == Status.STARTING:
            try_number = self.shard.try_number
            run = job_moves.start_run(self.job, build=self.stage.build, try_number=try_number)
            if run is not None:
                return run.pk
            # An earlier call may have been committed although its response was lost.
            if (run_id := shard_moves.start(self.shard, job_id=self.job.pk)) is not None:
                self.job.status = Status.RUNNING
            return run_id
        return shard_moves.start(self.shard, job_id=self.job.pk)

    def _require_same_build(self) -> None:
        """Raise BuildReplaced unless the process runs the file with which the stage began."""
        if not executables.is_same(self.stage):
            raise BuildReplaced(f"{self.stage.build.executable} was replaced")

    def _start(self, directory: PrivateDirectory) -> ConfinedProcess:
        """Start the simulator process. Raises LeaseLost, RunLost or BuildBroken."""
        launch = partial(
            simulation.start_once,
            self.stage.build,
            arguments_of(self.stage),
            job=self.job,
            directory=directory,
            # Only an upper limit: the allowance ends earlier, but can still grow.
            seconds=self.job.ceiling_runtime_seconds,
            on_line=self.on_line,
            on_line_end=self.on_line_end,
        )
        return simulation.start(launch, holder=self.lease)

    def _conclude(self, directory: PrivateDirectory, run_id: int, ended: Ended) -> None:
        """Store the files of an ended process, and end the shard. Raises LeaseLost, NotStored or WorkerStops."""
        outputs = Outputs(self.job, directory, scrubber_of(None), stage=self.stage.stage, has_html=False)
        outcome = verdict.judge(
            self.job,
            ended,
            report=outputs.report,
            # With one iteration, profilesets of the first shard may do no damage, and are then left out. The intake
            # and the conductor's slot check the iterations.
            asked=Asked(profilesets=self.shard.profilesets if self.shard.number else 0),
            messages=outputs,
        )
        if outcome.error_code == ErrorCode.EXECUTION_FAILED:
            machine.require_working()
        has_report = not isinstance(outputs.report, BrokenReport)
        status = _status_of(outcome, ended)
        shard_files.store(
            self.stage,
            _contents(outputs, has_report=has_report),
            number=self.shard.number,
            try_number=self.shard.try_number,
        )
        result = ShardResult(
            status=outcome.status,
            error_code=outcome.error_code,
            reason=outcome.reason,
            exit_code=verdict.exit_code(ended),
            stopped_for=ended.stopped_for,
            has_report=has_report,
            warnings=[*outputs.version_warnings(self.stage.build), *outputs.warnings()],
        )
        self._end(status, result, run_id, ended)

    def _end(self, status: ShardStatus, result: ShardResult, run_id: int, ended: Ended) -> None:
        """End the shard; if it belongs to another try, remove its files. Raises LeaseLost."""
        wall_ms = round(ended.wall_seconds * 1000)
        # A process that was stopped because another shard failed is not billed.
        billed_ms = 0 if ended.stopped_for == StopReason.SHARD_FAILED else wall_ms
        end = partial(
            shard_moves.end,
            self.shard,
            status,
            result=result.as_json(),
            billed_ms=billed_ms,
            run_fields=simulation.run_fields(run_id, ended),
        )
        if not self._retry(end):
            shard_files.remove(self.stage, number=self.shard.number, try_number=self.shard.try_number)
            raise LeaseLost(self.job.pk)

    def _retry(self, write: Callable[[], T]) -> T:
        """Retry a write until the database accepts it; it must be safe to repeat. Raises LeaseLost."""
        while True:
            try:
                return write()
            except DatabaseError:
                logger.warning("%s waits for the database", self.lease)
                connection.close()
            self.lease.pause(RETRY_SECONDS)


def arguments_of(stage: ShardedStage) -> list[str]:
    """Return the simulator's arguments for a shard."""
    json_version = cast(Literal[2, 3], stage.job.json_version)
    return command.arguments(threads=stage.job.vcpus, json_version=json_version, html=False)


def _status_of(outcome: Outcome, ended: Ended) -> ShardStatus:
    """Return the status of a shard whose process ended in this way."""
    if outcome.status == Status.COMPLETED:
        return ShardStatus.DONE
    stopped = ended.stopped_for in (*PARTIAL, StopReason.SHARD_FAILED)
    return ShardStatus.STOPPED if stopped else ShardStatus.FAILED


def _contents(outputs: Outputs, *, has_report: bool) -> Iterator[tuple[Artifact.Kind, BinaryIO]]:
    """Yield the files that the conductor needs."""
    for kind, content in outputs.shard_files():
        if has_report or kind != Artifact.Kind.JSON_REPORT:
            yield kind, content
