"""The simulator's part of an attempt: one process for each stage, what each leaves, and how they end the job."""

import logging
import math
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from django.db import Error as DatabaseError
from django.db.models.functions import Now

from jobs import artifacts, labels, lifecycle
from jobs.builds import registration
from jobs.credentials import GameCredentials
from jobs.enums import Status
from jobs.execution import multistage, stage_statistics
from jobs.execution.budget import Budget
from jobs.execution.lease import Lease, LeaseLost
from jobs.execution.multistage import Stage
from jobs.execution.replicates import pooled, widening
from jobs.execution.results import Results
from jobs.execution.stage_progress import Course
from jobs.execution.watcher import Watcher
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Build, Job, Run
from jobs.runs import input_text, runner, verdict
from jobs.runs.directories import private_directory
from jobs.runs.outputs import Outputs, missing
from jobs.runs.scrubbing import scrubber_of
from jobs.shutdown import WorkerStops
from jobs.simulator import command
from jobs.simulator.private_directory import PrivateDirectory
from jobs.simulator.process import Ended, NotExecutable, SimulatorProcess
from jobs.simulator.reports import BrokenReport
from jobs.simulator.sandbox import NotRunnable, require_runnable

logger = logging.getLogger(__name__)

# While an operator replaces a file, it is missing or busy for a moment.
SECOND_START_SECONDS = 1.0


class BuildBroken(Exception):
    """The build cannot be run on this machine; the message says why."""


class Stages:
    """Runs a job's stages in turn. Adds the stored artifacts to `stored`, so that the caller can remove them.

    Raises CannotRun if the profile cannot run on the build.
    """

    def __init__(
        self, job: Job, build: Build, lease: Lease, *, secrets: GameCredentials | None, stored: list[Artifact]
    ) -> None:
        self.job, self.build, self.lease = job, build, lease
        self.secrets, self.stored = secrets, stored
        self.scrubber = scrubber_of(secrets)
        self.text, self.analysis = input_text.read(job, build)
        self.plan = multistage.plan(self.analysis, wanted=job.multi_stage, bounds=input_text.bounds())
        self.results = Results(self.plan, self.analysis)
        count = len(self.plan.stages)
        course = Course(
            self.plan.stages, stage_statistics.recent(job.account_id, stages=count) if count > 1 else None
        )
        self.watcher = Watcher(job, lease, Budget.of(job), course=course, scrubber=self.scrubber)
        self.wall_ms = 0
        self.missing: list[dict[str, Any]] = []

    def run(self) -> Outcome:
        """Run stage after stage until one does not complete, and return how the job ends.

        Raises LeaseLost, WorkerStops, BuildBroken or a database error.
        """
        for stage in self.plan.stages:
            outcome = self.stopped_before(stage) or self.run_stage(stage)
            if outcome.status != Status.COMPLETED:
                break
        if outcome is lifecycle.INTERNAL:
            return outcome
        self.store_table()
        return replace(outcome, missing_artifacts=self.missing_artifacts())

    def stopped_before(self, stage: Stage) -> Outcome | None:
        """Return how the job ends when it is due between two stages; before the first only a cancel ends it."""
        # A database that is away for a moment must not cost the stages that ran.
        self.lease.insist(self.lease.look_for_cancel)
        reason = self.watcher.due()
        if stage.number == 1:
            return lifecycle.CANCELLED if reason == verdict.CANCELLED else None
        return self.billed(verdict.stopped(self.job, reason), stopped_for=reason) if reason else None

    def run_stage(self, stage: Stage) -> Outcome:
        """Run one stage's process, keep what it leaves, and return how the job would end with it."""
        profilesets = self.results.left
        culled = self.results.culled
        replicates = multistage.replicates(stage, self.analysis, culled=culled)
        text = multistage.stage_text(stage, self.text, self.analysis, culled=culled, replicates=replicates)
        arguments = self.arguments(stage)
        self.watcher.course.enter(stage, profilesets=profilesets, replicates=replicates)
        with private_directory() as directory:
            runner.prepare(directory, text, credentials=self.secrets)
            ended = self.simulate(stage, arguments, directory=directory)
            self.wall_ms += round(ended.wall_seconds * 1000)
            self.lease.require()
            number = stage.number if self.plan.enabled else None
            outputs = Outputs(self.job, directory, self.scrubber, stage=number, has_page=self.has_page(stage))
            try:
                outcome = self.judge(stage, ended, outputs, replicates)
                # Taken in one by one, so that the caller knows of those stored before one fails.
                self.stored.extend(outputs.store(ran=command.input_text(text, arguments)))
                self.missing.extend(outputs.missing)
            except (LeaseLost, WorkerStops, DatabaseError, artifacts.NotStored):
                raise
            except Exception:
                logger.exception("job %s attempt %s failed on our side", self.job.pk, self.job.attempt)
                outcome = self.keep_logs(outputs)
        return outcome

    def keep_logs(self, outputs: Outputs) -> Outcome:
        """Keep of all stages nothing but this one's logs, and return the end of a job that our own error ended."""
        artifacts.discard(self.stored)
        self.stored.clear()
        self.stored.extend(outputs.store_logs())
        return lifecycle.INTERNAL

    def has_page(self, stage: Stage) -> bool:
        """Tell whether a stage makes the HTML report: the last one does, when it is wanted."""
        return self.job.html and stage.is_last

    def arguments(self, stage: Stage) -> list[str]:
        """Return the simulator's arguments for a stage."""
        return command.arguments(
            threads=self.job.vcpus,
            json_version=cast(Literal[2, 3], self.job.json_version),
            html=self.has_page(stage),
            has_credentials=self.job.has_credentials,
        )

    def simulate(self, stage: Stage, arguments: list[str], *, directory: PrivateDirectory) -> Ended:
        """Run one simulator process to its end and record it. Raises LeaseLost or BuildBroken."""
        with closing(self.start(arguments, directory=directory)) as process:
            started = time.monotonic()
            run = lifecycle.start_run(self.job, build=self.build, stage=stage.number)
            if run is None:
                raise LeaseLost(self.job.pk)
            ended = self.watcher.watch(process, started=started)
        self.lease.insist(lambda: record_end(run, ended))
        if ended.exit_status in verdict.NO_PROGRAM and ended.stopped_for is None:
            self.require_answer()
        return ended

    def start(self, arguments: list[str], *, directory: PrivateDirectory) -> SimulatorProcess:
        """Start a simulator process. Raises LeaseLost, or BuildBroken if its file fails twice."""
        try:
            return self.start_once(arguments, directory=directory)
        except (NotRunnable, NotExecutable) as error:
            logger.warning("job %s: build %s did not start; trying again: %s", self.job.pk, self.build, error)
        self.lease.lost.wait(SECOND_START_SECONDS)
        self.lease.require()
        try:
            return self.start_once(arguments, directory=directory)
        except (NotRunnable, NotExecutable) as error:
            raise BuildBroken(str(error)) from error

    def start_once(self, arguments: list[str], *, directory: PrivateDirectory) -> SimulatorProcess:
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

    def require_answer(self) -> None:
        """Raise BuildBroken unless the build prints its version, which does not depend on the job."""
        try:
            registration.version_of(self.build)
        except registration.UnusableBuild as error:
            raise BuildBroken(str(error)) from error

    def judge(self, stage: Stage, ended: Ended, outputs: Outputs, replicates: Mapping[str, str]) -> Outcome:
        """Judge an ended process by its end and what it left, and take in its report."""
        report, spread = outputs.report, 1.0
        if not isinstance(report, BrokenReport):
            spread = widening(report.profilesets, replicates)
            report = replace(report, profilesets=pooled(report.profilesets, replicates))
        expected = self.results.left if self.analysis.reports_all else 0
        judged = verdict.judge(self.job, ended, report=report, profilesets=expected, complaint=outputs.complaint())
        self.results.warn([*self.version_warnings(outputs), *outputs.warnings()])
        kept = None if isinstance(report, BrokenReport) else report
        self.results.take(stage, kept)
        if kept is not None and judged.status == Status.COMPLETED and not stage.is_last:
            self.results.cull(kept, widening=spread)
        return self.billed(replace(judged, exit_code=verdict.exit_code(ended)), stopped_for=ended.stopped_for)

    def version_warnings(self, outputs: Outputs) -> list[str]:
        """Return a warning if the simulator's version differs from its build's: its file has been replaced."""
        version, registered = outputs.version(), self.build.simc_version
        if version in (None, registered):
            return []
        logger.error(
            "build %s was registered as %s and is now %s: register it again", self.build, registered, version
        )
        return [f"The simulator reports version {version}, but its build was registered with version {registered}."]

    def billed(self, outcome: Outcome, *, stopped_for: str | None) -> Outcome:
        """Return an outcome with what the attempt's processes used and found out so far."""
        budget = self.watcher.budget
        # A job stopped at its cap is billed the cap, also when that is no whole number of seconds.
        charge = budget.held_credits if stopped_for == verdict.CEILING else budget.charge(self.wall_ms)
        if stopped_for is not None:
            self.results.leave_out_unreached()
        return replace(
            outcome,
            reason=labels.with_not_reached(outcome.reason, self.results.not_reached),
            sim_duration_ms=self.wall_ms,
            credits_consumed=charge + self.job.priority_fee_credits,
            summary=self.results.summary(partial=stopped_for is not None),
            percent=self.watcher.course.percent,
        )

    def store_table(self) -> None:
        """Store the CSV table when it is wanted and there is anything to put into it."""
        if not self.job.csv:
            return
        table = self.results.table()
        if table is None:
            self.missing.append(
                missing(Artifact.Kind.CSV_REPORT, stage=None, reason="there are no results to list")
            )
            return
        with table:
            self.stored.append(artifacts.store(self.job, Artifact.Kind.CSV_REPORT, table))

    def missing_artifacts(self) -> list[dict[str, Any]]:
        """Return the requested artifacts that could not be stored; none if no simulator has run."""
        last, ran = self.plan.stages[-1], len(self.results.stages)
        if not ran:
            return []
        if self.job.html and ran < last.number:
            reason = "the job ended before the last stage, which creates it"
            self.missing.append(missing(Artifact.Kind.HTML_REPORT, stage=last.number, reason=reason))
        return self.missing


def record_end(run: Run, ended: Ended) -> None:
    """Write down how a process ended; a run that was given up as lost meanwhile stays so."""
    Run.objects.filter(pk=run.pk, ended_at=None).update(
        ended_at=Now(),
        wall_ms=round(ended.wall_seconds * 1000),
        cpu_ms=round(ended.cpu_seconds * 1000),
        peak_memory_bytes=ended.peak_memory_bytes,
        exit_code=verdict.exit_code(ended),
        stopped_for=ended.stopped_for or "",
        sandbox_layers=ended.layers,
    )
