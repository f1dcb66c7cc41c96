"""The simulator's part of an attempt: one process for each stage, what each leaves, and how they end the job."""

import logging
import math
import time
from dataclasses import replace
from typing import Literal, cast

from django.db import Error as DatabaseError
from django.db.models.functions import Now

from jobs import artifacts, lifecycle, multistage, run_input, runner, verdict, vetting
from jobs.budget import Budget
from jobs.credentials import GameCredentials
from jobs.lease import Lease, LeaseLost
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Build, Job, Run, Status
from jobs.multistage import Course, Stage
from jobs.outputs import Outputs
from jobs.results import Results
from jobs.run_directories import private_directory
from jobs.scrubbing import scrubber_of
from jobs.simulator import command
from jobs.simulator.process import Ended
from jobs.simulator.sandbox import PrivateDirectory
from jobs.stopping import WorkerStops
from jobs.watching import Watcher

logger = logging.getLogger(__name__)


class Stages:
    """Runs a job's stages in turn. What they leave is put into `stored`, so that the caller can remove it again.

    Raises CannotRun when the profile cannot be run on the build.
    """

    def __init__(
        self, job: Job, build: Build, lease: Lease, *, secrets: GameCredentials | None, stored: list[Artifact]
    ) -> None:
        self.job, self.build, self.lease = job, build, lease
        self.secrets, self.stored = secrets, stored
        self.scrubber = scrubber_of(secrets)
        self.text, self.analysis = run_input.read(job, build)
        self.plan = multistage.plan(self.analysis, wanted=job.multi_stage, bounds=vetting.bounds())
        self.results = Results(self.plan, self.analysis)
        self.watcher = Watcher(job, lease, Budget.of(job), course=Course(self.plan.stages), scrubber=self.scrubber)
        self.wall_ms = 0

    def run(self) -> Outcome:
        """Run stage after stage until one does not complete, and return how the job ends.

        Raises LeaseLost, WorkerStops or a database error.
        """
        for stage in self.plan.stages:
            outcome = self.stopped_before(stage) or self.run_stage(stage)
            if outcome.status != Status.COMPLETED:
                break
        if outcome is not lifecycle.INTERNAL:
            self.store_table()
        return outcome

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
        text = multistage.stage_text(stage, self.text, self.analysis, culled=self.results.culled)
        arguments = self.arguments(stage)
        self.watcher.enter(stage, profilesets=profilesets)
        with private_directory() as directory:
            runner.prepare(directory, text, credentials=self.secrets)
            ended = self.simulate(stage, arguments, directory=directory)
            self.wall_ms += round(ended.wall_seconds * 1000)
            self.lease.require()
            number = stage.number if self.plan.enabled else None
            outputs = Outputs(self.job, directory, self.scrubber, stage=number, has_page=self.has_page(stage))
            try:
                outcome = self.judge(stage, ended, outputs, profilesets=profilesets)
                # Taken in one by one, so that the caller knows of those stored before one fails.
                self.stored.extend(outputs.store(ran=command.input_text(text, arguments)))
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
        """Run one simulator process to its end and record it. Raises LeaseLost."""
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
        with process:
            started = time.monotonic()
            run = lifecycle.start_run(self.job, build=self.build, stage=stage.number)
            if run is None:
                raise LeaseLost(self.job.pk)
            ended = self.watcher.watch(process, started=started)
        self.lease.insist(lambda: record_end(run, ended))
        return ended

    def judge(self, stage: Stage, ended: Ended, outputs: Outputs, *, profilesets: int) -> Outcome:
        """Judge an ended process by its end and what it left, and take in its report."""
        report = outputs.report
        expected = profilesets if self.analysis.reports_all else 0
        judged = verdict.judge(self.job, ended, report=report, profilesets=expected, complaint=outputs.complaint())
        self.results.take(stage, report)
        if report is not None and judged.status == Status.COMPLETED and not stage.is_last:
            self.results.cull(report)
        return self.billed(replace(judged, exit_code=verdict.exit_code(ended)), stopped_for=ended.stopped_for)

    def billed(self, outcome: Outcome, *, stopped_for: str | None) -> Outcome:
        """Return an outcome with what the attempt's processes used and found out so far."""
        budget = self.watcher.budget
        # A job stopped at its cap is billed the cap, also when that is no whole number of seconds.
        charge = budget.held_credits if stopped_for == verdict.CEILING else budget.charge(self.wall_ms)
        return replace(
            outcome,
            sim_duration_ms=self.wall_ms,
            credits_consumed=charge + self.job.priority_fee_credits,
            summary=self.results.summary(partial=stopped_for is not None),
        )

    def store_table(self) -> None:
        """Store the CSV table when it is wanted and there is anything to put into it."""
        table = self.results.table() if self.job.csv else None
        if table is not None:
            with table:
                self.stored.append(artifacts.store(self.job, Artifact.Kind.CSV_REPORT, table))


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
