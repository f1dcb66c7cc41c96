"""The stages of an attempt: their simulator processes and outputs, and the outcome of the job."""

import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO, Literal, cast

from django.db import Error as DatabaseError

from jobs.artifacts import artifact_files
from jobs.artifacts.credentials import GameCredentials
from jobs.enums import ErrorCode, Status
from jobs.execution import runner, shard_plan, simulation, verdict
from jobs.execution.asked import asked_of
from jobs.execution.budget import Budget
from jobs.execution.conductor import Conducted, Conductor, ShardPlan
from jobs.execution.directories import private_directory
from jobs.execution.lease import Lease, LeaseLost
from jobs.execution.live_results import LiveResults, has_means
from jobs.execution.machine import machine
from jobs.execution.outputs import Outputs, missing
from jobs.execution.preparation import Preparation
from jobs.execution.results import Results
from jobs.execution.run_ends import record_end
from jobs.execution.scrubbing import scrubber_of
from jobs.execution.shard_outputs import ShardOutputs
from jobs.execution.simulation import MachineFault, RunLost
from jobs.execution.stage_progress import ProgressEstimate
from jobs.execution.watcher import Watcher
from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job
from jobs.planning import durations, input_text, multistage, stage_statistics
from jobs.planning.durations import PastJob
from jobs.planning.multistage import Stage
from jobs.planning.replicates import pooled, widening
from jobs.results import blame, details, labels
from sandbox.private_directory import PrivateDirectory
from sandbox.process import Ended, SimulatorProcess
from sandbox.stop_reasons import StopReason
from simc import command
from simc.reports import BrokenReport, Report
from simc.shortfall import Asked, shortfall
from simservice.shutdown import WorkerStops
from simservice.telemetry import known_errors, tracing

logger = logging.getLogger(__name__)


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
        self.submitted_text = prepared.profile_text
        self.input = input_text.read(job, prepared.profile_text, self.build)
        self.text, self.analysis = self.input.text, self.input.analysis
        self.plan = multistage.plan(self.analysis, wanted=job.multi_stage, bounds=input_text.bounds())
        self.results = Results(self.plan, self.analysis)
        count = len(self.plan.stages)
        statistics = stage_statistics.recent(job.account_id, stages=count) if count > 1 else None
        estimate = ProgressEstimate(self.plan.stages, statistics)
        budget = Budget.of(job, hold_credits=prepared.hold_credits)
        live = LiveResults(has_means=has_means(self.analysis))
        self.watcher = Watcher(job, lease, budget, estimate=estimate, live=live, scrubber=self.scrubber)
        self.wall_ms = self.measured_ms = 0
        # The figures of an earlier stage, and the simulator time up to the last stage.
        self.measured: PastJob | None = None
        self.ran_in_shards = False
        self.ids: Iterator[int] = iter(())
        # What the stage that runs now is asked to do.
        self.asked = Asked()
        self.missing: list[dict[str, Any]] = []

    def run(self) -> Outcome:
        """Run the stages until one does not complete, and return the job's outcome.

        Raises LeaseLost, WorkerStops, BuildBroken, RunLost or a database error.
        """
        for stage in self.plan.stages:
            outcome = self._outcome_before(stage) or self._run_stage(stage)
            if outcome.status != Status.COMPLETED:
                break
        if outcome is job_moves.INTERNAL:
            return outcome
        self._store_csv()
        return replace(
            outcome,
            missing_artifacts=self._missing_artifacts(),
            slots_used=self._slots_used(),
            details=self._details(),
        )

    def _details(self) -> bytes | None:
        """Return the details of the result as they are stored, or None without a report."""
        report = self.results.report
        return details.packed(report.details, scrub=self.scrubber.text) if report and report.details else None

    def _slots_used(self) -> int | None:
        """Return how many slots ran simulators, None if none ran. One query if the job ran in shards."""
        if self.ran_in_shards:
            return self.lease.retry(lambda: shard_moves.slots_used(self.job)) or None
        return 1 if self.results.stages else None

    def _outcome_before(self, stage: Stage) -> Outcome | None:
        """Return the outcome of a job that must stop before a stage, or None if it may run.

        Before the first stage, only a cancellation request that was read during the preparation stops the job.
        """
        if stage.number == 1:
            return job_moves.CANCELLED if self.lease.cancelled.is_set() else None
        # A short database outage must not void the stages that ran.
        self.lease.retry(self.lease.check_cancellation)
        reason = self.watcher.stop_reason()
        return self._with_usage(verdict.stopped(self.job, reason), stopped_for=reason) if reason else None

    def _run_stage(self, stage: Stage) -> Outcome:
        """Run one stage, store its outputs, and return the job's outcome if no other stage follows."""
        culled = self.results.culled
        replicates = multistage.replicates(stage, self.analysis, culled=culled)
        self.asked = asked_of(
            stage,
            self.analysis,
            text=self.text,
            culled=culled,
            replicated=len(replicates) == self.results.remaining,
            threads=self.job.vcpus,
        )
        self.watcher.estimate.enter(stage, profilesets=self.results.remaining, replicates=replicates)
        self.watcher.live.enter(stage.number, profilesets=self.results.remaining, replicates=replicates)
        plan = shard_plan.plan(
            self.job,
            self.build,
            stage,
            text=self.text,
            submitted_text=self.submitted_text,
            analysis=self.analysis,
            culled=culled,
            replicates=replicates,
            has_html=self._has_html(stage),
            measured=self.measured,
        )
        if plan is None:
            return self._run_whole(stage, replicates)
        return self._run_in_shards(plan, replicates)

    def _run_whole(self, stage: Stage, replicates: Mapping[str, str]) -> Outcome:
        """Run a stage as one process, and return the job's outcome if no other stage follows."""
        text, arguments = self._text(stage, replicates), self._arguments(stage)
        with private_directory() as directory:
            runner.prepare(directory, text, credentials=self.secrets)
            self.watcher.begin()
            ended = self._simulate(stage, arguments, directory=directory)
            self.wall_ms += round(ended.wall_seconds * 1000)
            self.lease.require()
            outputs = Outputs(
                self.job, directory, self.scrubber, stage=self._number(stage), has_html=self._has_html(stage)
            )
            try:
                outcome = self._outcome_of(stage, ended, outputs, replicates)
                if outcome.error_code == ErrorCode.EXECUTION_FAILED:
                    machine.require_working()
                self.stored.extend(outputs.store(ran=command.input_text(text, arguments), ids=self.ids))
                self.missing.extend(outputs.missing)
            except (LeaseLost, WorkerStops, MachineFault, DatabaseError, artifact_files.NotStored):
                raise
            except Exception as error:
                if known_errors.machine_problem(error):
                    raise
                logger.exception("job %s attempt %s failed with an internal error", self.job.pk, self.job.attempt)
                outcome = self._store_only_logs(outputs)
        return outcome

    def _run_in_shards(self, plan: ShardPlan, replicates: Mapping[str, str]) -> Outcome:
        """Run a stage in shards, and return the job's outcome if no other stage follows."""
        conductor = Conductor(plan, job=self.job, build=self.build, lease=self.lease, watcher=self.watcher)
        with closing(conductor.intake) as intake:
            conducted = conductor.run()
            if self.job.status == Status.STARTING:
                return _never_started(conducted)
            self.wall_ms += conducted.billed_ms
            self.lease.require()
            outputs = ShardOutputs(intake, count=1 + len(plan.groups))
            report, factor = _pooled(outputs.report(), replicates)
            outcome = self._checked(conducted.outcome, report)
            is_completed = outcome.status == Status.COMPLETED
            self._add_report(plan.stage, report, conducted.warnings, widening=factor if is_completed else None)
            text = command.input_text(self._text(plan.stage, replicates), self._arguments(plan.stage))
            self._store_shards(outputs.contents(text), stage=plan.stage)
        self.ran_in_shards = True
        return self._with_usage(outcome, stopped_for=conducted.stopped_for)

    def _checked(self, outcome: Outcome, report: Report | BrokenReport) -> Outcome:
        """Return the outcome of shards; all of them together may lack a profileset that none of them misses.

        A shard whose own baseline, of one iteration, did no damage cannot tell.
        """
        if outcome.status != Status.COMPLETED or isinstance(report, BrokenReport):
            return outcome
        incomplete = verdict.incomplete(report, replace(self.asked, profilesets_may_end_early=True))
        if incomplete:
            return replace(incomplete, exit_code=outcome.exit_code)
        # The intake ran its shard again with the whole baseline, so the profile itself is the cause.
        if lack := shortfall(report, self.asked):
            self.results.notes.append(lack.sentence)
        return outcome

    def _store_shards(self, contents: Iterator[tuple[Artifact.Kind, BinaryIO]], *, stage: Stage) -> None:
        """Store the merged artifacts of a stage. Raises NotStored or WorkerStops."""
        number = self._number(stage)
        stored = artifact_files.store_all(self.job, contents, stage=number)
        self.stored.extend(stored)
        if not any(artifact.kind == Artifact.Kind.JSON_REPORT for artifact in stored):
            reason = "the reports of its shards could not be merged"
            self.missing.append(missing(Artifact.Kind.JSON_REPORT, stage=number, reason=reason))

    def _text(self, stage: Stage, replicates: Mapping[str, str]) -> str:
        """Return the profile as a stage runs it."""
        culled = self.results.culled
        return multistage.stage_text(stage, self.text, self.analysis, culled=culled, replicates=replicates)

    def _number(self, stage: Stage) -> int | None:
        """Return the number of a stage for its artifacts, None for a single pass."""
        return stage.number if self.plan.enabled else None

    def _store_only_logs(self, outputs: Outputs) -> Outcome:
        """Discard everything stored except this stage's logs, and return the outcome of an internal error."""
        artifact_files.discard(self.stored)
        self.stored.clear()
        self.stored.extend(outputs.store_logs())
        return job_moves.INTERNAL

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
        with (
            tracing.span("run", stage=stage.number, build=str(self.build.pk)),
            closing(self._start(arguments, directory=directory)) as process,
        ):
            started = time.monotonic()
            run = job_moves.start_run(self.job, build=self.build, stage=stage.number)
            if run is None:
                raise LeaseLost(self.job.pk)
            ended = self.watcher.watch(process, started=started)
            tracing.note(exit_code=verdict.exit_code(ended), stopped_for=ended.stopped_for)
        if ended.is_lost:
            # The sweep marks the run as lost.
            raise RunLost(f"the launcher of stage {stage.number} died")
        self.ids = self.lease.retry(lambda: record_end(run, ended))
        if ended.exit_status in blame.NO_PROGRAM and ended.stopped_for is None:
            simulation.require_working(self.build)
        return ended

    def _start(self, arguments: list[str], *, directory: PrivateDirectory) -> SimulatorProcess:
        """Start a simulator process. Raises LeaseLost, RunLost or BuildBroken."""
        launch = partial(
            simulation.start_once,
            self.build,
            arguments,
            job=self.job,
            directory=directory,
            seconds=math.ceil(self.job.ceiling_runtime_seconds - self.watcher.ran_seconds),
            on_line=self.watcher.on_line,
            on_line_end=self.watcher.on_line_end,
        )
        return simulation.start(launch, holder=self.lease)

    def _outcome_of(self, stage: Stage, ended: Ended, outputs: Outputs, replicates: Mapping[str, str]) -> Outcome:
        """Return the outcome of a stage's process, and add its report to the results."""
        report, factor = _pooled(outputs.report, replicates)
        fights_done = self.watcher.is_reporting
        outcome = verdict.judge(
            self.job,
            ended,
            report=report,
            asked=self.asked,
            messages=outputs,
            has_html=outputs.has_html,
            fights_done=fights_done,
        )
        is_completed = outcome.status == Status.COMPLETED
        if outputs.has_html and (is_completed or (fights_done and ended.stopped_for in verdict.JOB_STOPS)):
            outputs.html_problem = verdict.html_problem(ended, outputs)
        if is_completed:
            self.results.notes += outputs.html_warnings()
        warnings = [*outputs.version_warnings(self.build), *outputs.warnings()]
        self._add_report(stage, report, warnings, widening=factor if is_completed else None)
        return self._with_usage(replace(outcome, exit_code=verdict.exit_code(ended)), stopped_for=ended.stopped_for)

    def _add_report(
        self, stage: Stage, report: Report | BrokenReport, warnings: Iterable[str], *, widening: float | None
    ) -> None:
        """Add a stage's report to the results, and cull; `widening` is None if the stage did not complete."""
        self.results.add_warnings(warnings)
        valid = None if isinstance(report, BrokenReport) else report
        self.results.add_stage(stage, valid)
        if valid is not None and widening is not None and not stage.is_last:
            self.results.cull(valid, widening=widening)
            seconds = (self.wall_ms - self.measured_ms) / 1000
            self.measured = durations.measured(valid, seconds=seconds) or self.measured
        self.measured_ms = self.wall_ms

    def _with_usage(self, outcome: Outcome, *, stopped_for: str | None) -> Outcome:
        """Return an outcome with the attempt's usage, credits and results so far."""
        budget = self.watcher.budget
        # Shards can leave seconds that none of them could use.
        is_capped = stopped_for == StopReason.CEILING and not self.ran_in_shards
        charge = budget.charge(self.wall_ms, is_capped=is_capped)
        is_partial = outcome.status != Status.COMPLETED
        if is_partial:
            self.results.drop_unreached()
        summary = self.results.summary(partial=is_partial, asked=self.asked)
        return replace(
            outcome,
            reason=self._reason_of(outcome, was_stopped=stopped_for is not None),
            sim_duration_ms=self.wall_ms,
            credits_consumed=charge + self.job.priority_fee_credits,
            summary=summary,
            warnings=() if summary else self.results.listed_warnings(without=outcome.reason),
            ranking=self.results.ranking(),
            percent=self.watcher.estimate.percent,
        )

    def _reason_of(self, outcome: Outcome, *, was_stopped: bool) -> str | None:
        """Return why a job ended, with the line of the profile at fault or with what was not simulated."""
        if was_stopped:
            return labels.with_not_reached(outcome.reason, self.results.not_reached)
        if outcome.reason is None or outcome.error_code != ErrorCode.SIMULATION_ERROR:
            return outcome.reason
        return self.input.located(outcome.reason)

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
        self.stored += artifact_files.store_all(self.job, [(Artifact.Kind.CSV_REPORT, table)], ids=self.ids)

    def _missing_artifacts(self) -> list[dict[str, Any]]:
        """Return the requested artifacts that could not be stored; none if no simulator has run."""
        last, ran = self.plan.stages[-1], len(self.results.stages)
        if not ran:
            return []
        if self.job.html and ran < last.number:
            reason = "the job ended before the last stage, which creates it"
            self.missing.append(missing(Artifact.Kind.HTML_REPORT, stage=last.number, reason=reason))
        return self.missing


def _never_started(conducted: Conducted) -> Outcome:
    """Return the outcome of a stage that was stopped before its first simulator started. Nothing is billed."""
    return job_moves.CANCELLED if conducted.stopped_for == StopReason.CANCELLED else conducted.outcome


def _pooled(report: Report | BrokenReport, replicates: Mapping[str, str]) -> tuple[Report | BrokenReport, float]:
    """Return a report with each profileset once, and the factor by which replicates differ more than reported."""
    if isinstance(report, BrokenReport):
        return report, 1.0
    factor = widening(report.profilesets, replicates)
    return replace(report, profilesets=pooled(report.profilesets, replicates)), factor
