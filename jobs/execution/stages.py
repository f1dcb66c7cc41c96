"""The stages of an attempt: one simulator process each, its outputs, and the outcome of the job."""

import json
import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from django.db import Error as DatabaseError

from jobs import artifacts, labels, lifecycle
from jobs.builds import registration
from jobs.credentials import GameCredentials
from jobs.enums import Status
from jobs.execution import multistage, stage_statistics
from jobs.execution.budget import Budget
from jobs.execution.lease import Lease, LeaseLost
from jobs.execution.multistage import Stage
from jobs.execution.preparation import Preparation
from jobs.execution.replicates import pooled, widening
from jobs.execution.results import Results
from jobs.execution.stage_progress import ProgressEstimate
from jobs.execution.watcher import Watcher
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Job, Run
from jobs.runs import input_text, runner, verdict
from jobs.runs.directories import private_directory
from jobs.runs.outputs import Outputs, missing
from jobs.runs.scrubbing import scrubber_of
from jobs.shutdown import WorkerStops
from jobs.simulator import command
from jobs.simulator.private_directory import PrivateDirectory
from jobs.simulator.process import Ended, LauncherLost, NotExecutable, SimulatorProcess
from jobs.simulator.reports import BrokenReport
from jobs.simulator.sandbox import NotRunnable, require_runnable
from jobs.simulator.stop_reasons import StopReason
from simservice import statements
from simservice.ids import NEW_ID
from simservice.statements import Statement

logger = logging.getLogger(__name__)

# A file that an operator replaces is missing or busy for a moment.
SECOND_START_SECONDS = 1.0


class BuildBroken(Exception):
    """The build cannot be run on this machine; the message says why."""


class RunLost(Exception):
    """The launcher or the supervisor of a simulator died, so the attempt has no result."""


class Stages:
    """Runs a job's stages in turn. Adds each stored artifact to `stored`, so that the caller can remove it.

    Raises CannotRun if the profile cannot run on the build.
    """

    def __init__(
        self,
        job: Job,
        prepared: Preparation,
        lease: Lease,
        *,
        secrets: GameCredentials | None,
        stored: list[Artifact],
    ) -> None:
        self.job, self.build, self.lease = job, prepared.build, lease
        if prepared.cancel_requested:
            lease.cancelled.set()
        self.secrets, self.stored = secrets, stored
        self.scrubber = scrubber_of(secrets)
        self.text, self.analysis = input_text.read(job, prepared.profile_text, self.build)
        self.plan = multistage.plan(self.analysis, wanted=job.multi_stage, bounds=input_text.bounds())
        self.results = Results(self.plan, self.analysis)
        count = len(self.plan.stages)
        statistics = stage_statistics.recent(job.account_id, stages=count) if count > 1 else None
        estimate = ProgressEstimate(self.plan.stages, statistics)
        budget = Budget.of(job, hold_credits=prepared.hold_credits)
        self.watcher = Watcher(job, lease, budget, estimate=estimate, scrubber=self.scrubber)
        self.wall_ms = 0
        self.ids: Iterator[int] = iter(())
        self.missing: list[dict[str, Any]] = []

    def run(self) -> Outcome:
        """Run the stages until one does not complete, and return the job's outcome.

        Raises LeaseLost, WorkerStops, BuildBroken, RunLost or a database error.
        """
        for stage in self.plan.stages:
            outcome = self._outcome_before(stage) or self._run_stage(stage)
            if outcome.status != Status.COMPLETED:
                break
        if outcome is lifecycle.INTERNAL:
            return outcome
        self._store_csv()
        return replace(outcome, missing_artifacts=self._missing_artifacts())

    def _outcome_before(self, stage: Stage) -> Outcome | None:
        """Return the outcome of a job that must stop before a stage, or None if it may run.

        Before the first stage, only a cancellation request that was read during the preparation stops the job.
        """
        if stage.number == 1:
            return lifecycle.CANCELLED if self.lease.cancelled.is_set() else None
        # A short database outage must not void the stages that ran.
        self.lease.retry(self.lease.check_cancellation)
        reason = self.watcher.stop_reason()
        return self._with_usage(verdict.stopped(self.job, reason), stopped_for=reason) if reason else None

    def _run_stage(self, stage: Stage) -> Outcome:
        """Run one stage's process, store its outputs, and return the job's outcome if no other stage follows."""
        profilesets = self.results.remaining
        culled = self.results.culled
        replicates = multistage.replicates(stage, self.analysis, culled=culled)
        text = multistage.stage_text(stage, self.text, self.analysis, culled=culled, replicates=replicates)
        arguments = self._arguments(stage)
        self.watcher.estimate.enter(stage, profilesets=profilesets, replicates=replicates)
        with private_directory() as directory:
            runner.prepare(directory, text, credentials=self.secrets)
            ended = self._simulate(stage, arguments, directory=directory)
            self.wall_ms += round(ended.wall_seconds * 1000)
            self.lease.require()
            number = stage.number if self.plan.enabled else None
            outputs = Outputs(self.job, directory, self.scrubber, stage=number, has_html=self._has_html(stage))
            try:
                outcome = self._outcome_of(stage, ended, outputs, replicates)
                self.stored.extend(outputs.store(ran=command.input_text(text, arguments), ids=self.ids))
                self.missing.extend(outputs.missing)
            except (LeaseLost, WorkerStops, DatabaseError, artifacts.NotStored):
                raise
            except Exception:
                logger.exception("job %s attempt %s failed with an internal error", self.job.pk, self.job.attempt)
                outcome = self._store_only_logs(outputs)
        return outcome

    def _store_only_logs(self, outputs: Outputs) -> Outcome:
        """Discard everything stored except this stage's logs, and return the outcome of an internal error."""
        artifacts.discard(self.stored)
        self.stored.clear()
        self.stored.extend(outputs.store_logs())
        return lifecycle.INTERNAL

    def _has_html(self, stage: Stage) -> bool:
        """Return whether a stage writes the HTML report: only the last one does, if it was requested."""
        return self.job.html and stage.is_last

    def _arguments(self, stage: Stage) -> list[str]:
        """Return the simulator's arguments for a stage."""
        return command.arguments(
            threads=self.job.vcpus,
            json_version=cast(Literal[2, 3], self.job.json_version),
            html=self._has_html(stage),
            has_credentials=self.job.has_credentials,
        )

    def _simulate(self, stage: Stage, arguments: list[str], *, directory: PrivateDirectory) -> Ended:
        """Run one simulator process and record it. Raises LeaseLost, BuildBroken or RunLost."""
        with closing(self._start(arguments, directory=directory)) as process:
            started = time.monotonic()
            run = lifecycle.start_run(self.job, build=self.build, stage=stage.number)
            if run is None:
                raise LeaseLost(self.job.pk)
            ended = self.watcher.watch(process, started=started)
        if ended.is_lost:
            # The sweep marks the run as lost.
            raise RunLost(f"the launcher of stage {stage.number} died")
        self.ids = self.lease.retry(lambda: record_end(run, ended))
        if ended.exit_status in verdict.NO_PROGRAM and ended.stopped_for is None:
            self._require_working_build()
        return ended

    def _start(self, arguments: list[str], *, directory: PrivateDirectory) -> SimulatorProcess:
        """Start a simulator process. Raises LeaseLost, RunLost, or BuildBroken if its file fails twice."""
        try:
            return self._start_once(arguments, directory=directory)
        except LauncherLost as error:
            raise RunLost(str(error)) from error
        except (NotRunnable, NotExecutable) as error:
            logger.warning("job %s: build %s did not start; trying again: %s", self.job.pk, self.build, error)
        self.lease.lost.wait(SECOND_START_SECONDS)
        self.lease.require()
        try:
            return self._start_once(arguments, directory=directory)
        except (NotRunnable, NotExecutable) as error:
            raise BuildBroken(str(error)) from error

    def _start_once(self, arguments: list[str], *, directory: PrivateDirectory) -> SimulatorProcess:
        """Start a simulator process. Raises NotRunnable, or SimulatorNotStarted if the sandbox fails too."""
        require_runnable(Path(self.build.executable), readable=[Path(path) for path in self.build.readable_paths])
        process = runner.simulator(
            self.build,
            arguments,
            directory=directory,
            threads=self.job.vcpus,
            seconds=math.ceil(self.job.ceiling_runtime_seconds - self.watcher.ran_seconds),
            on_line=self.watcher.on_line,
            on_line_end=self.watcher.on_line_end,
            proxy=runner.game_api_proxy(self.job) if self.job.has_credentials else None,
        )
        process.start()
        return process

    def _require_working_build(self) -> None:
        """Raise BuildBroken unless the build prints its version, which does not depend on the job."""
        try:
            registration.version_of(self.build)
        except registration.UnusableBuild as error:
            raise BuildBroken(str(error)) from error

    def _outcome_of(self, stage: Stage, ended: Ended, outputs: Outputs, replicates: Mapping[str, str]) -> Outcome:
        """Return the outcome of a stage's process, and add its report to the results."""
        report, factor = outputs.report, 1.0
        if not isinstance(report, BrokenReport):
            factor = widening(report.profilesets, replicates)
            report = replace(report, profilesets=pooled(report.profilesets, replicates))
        expected = self.results.remaining if self.analysis.reports_all else 0
        outcome = verdict.judge(
            self.job, ended, report=report, profilesets=expected, read_error_message=outputs.error_message
        )
        self.results.add_warnings([*self._version_warnings(outputs), *outputs.warnings()])
        valid = None if isinstance(report, BrokenReport) else report
        self.results.add_stage(stage, valid)
        if valid is not None and outcome.status == Status.COMPLETED and not stage.is_last:
            self.results.cull(valid, widening=factor)
        return self._with_usage(replace(outcome, exit_code=verdict.exit_code(ended)), stopped_for=ended.stopped_for)

    def _version_warnings(self, outputs: Outputs) -> list[str]:
        """Return a warning if the simulator's version is not its build's, because its file was replaced."""
        version, registered = outputs.version(), self.build.simc_version
        if version in (None, registered):
            return []
        logger.error(
            "build %s was registered as %s and is now %s; register it again",
            self.build,
            registered,
            version,
        )
        return [f"The simulator reports version {version}, but its build was registered with version {registered}."]

    def _with_usage(self, outcome: Outcome, *, stopped_for: str | None) -> Outcome:
        """Return an outcome with the attempt's usage, credits and results so far."""
        budget = self.watcher.budget
        # A job stopped at its cap is billed the cap, even if that is not a whole number of seconds.
        charge = budget.held_credits if stopped_for == StopReason.CEILING else budget.charge(self.wall_ms)
        if stopped_for is not None:
            self.results.drop_unreached()
        return replace(
            outcome,
            reason=labels.with_not_reached(outcome.reason, self.results.not_reached),
            sim_duration_ms=self.wall_ms,
            credits_consumed=charge + self.job.priority_fee_credits,
            summary=self.results.summary(partial=stopped_for is not None),
            percent=self.watcher.estimate.percent,
        )

    def _store_csv(self) -> None:
        """Store the CSV table if it was requested and there are results."""
        if not self.job.csv:
            return
        table = self.results.table()
        if table is None:
            self.missing.append(
                missing(Artifact.Kind.CSV_REPORT, stage=None, reason="there are no results to list")
            )
            return
        self.stored += artifacts.store_all(self.job, [(Artifact.Kind.CSV_REPORT, table)], ids=self.ids)

    def _missing_artifacts(self) -> list[dict[str, Any]]:
        """Return the requested artifacts that could not be stored; none if no simulator has run."""
        last, ran = self.plan.stages[-1], len(self.results.stages)
        if not ran:
            return []
        if self.job.html and ran < last.number:
            reason = "the job ended before the last stage, which creates it"
            self.missing.append(missing(Artifact.Kind.HTML_REPORT, stage=last.number, reason=reason))
        return self.missing


# Record how a process ended, unless its run was already recorded as lost. Return ids for the rows of its artifacts.
END_RUN = Statement(
    "end_run",
    f"""
    WITH ended AS (
        UPDATE jobs_run SET ended_at = statement_timestamp(), wall_ms = %(wall_ms)s, cpu_ms = %(cpu_ms)s,
            peak_memory_bytes = %(peak_memory_bytes)s, exit_code = %(exit_code)s, stopped_for = %(stopped_for)s,
            sandbox_layers = %(layers)s
        WHERE id = %(run_id)s AND ended_at IS NULL
    )
    SELECT {NEW_ID} FROM generate_series(1, {len(Artifact.Kind)})
    """,  # noqa: S608 - made of constants
)


def record_end(run: Run, ended: Ended) -> Iterator[int]:
    """Record how a process ended, unless its run was already recorded as lost. One statement.

    Returns ids for the rows of the process's artifacts.
    """
    values = {
        "run_id": run.pk,
        "wall_ms": round(ended.wall_seconds * 1000),
        "cpu_ms": round(ended.cpu_seconds * 1000),
        "peak_memory_bytes": ended.peak_memory_bytes,
        "exit_code": verdict.exit_code(ended),
        "stopped_for": ended.stopped_for or "",
        "layers": json.dumps(ended.layers),
    }
    return iter([artifact_id for (artifact_id,) in statements.run(END_RUN, values=values)])
