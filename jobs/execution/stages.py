"""The stages of an attempt: their shards and outputs, and the outcome of the job."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from django.db import Error as DatabaseError

from jobs.artifacts import artifact_files
from jobs.artifacts.credentials import GameCredentials
from jobs.enums import ErrorCode, Status, StopReason
from jobs.errors import GivesUp
from jobs.execution import shard_plan, verdict
from jobs.execution.conductor import Conductor, Contents, OnlyShard, StageResult, StageWork
from jobs.execution.job_report import JobReport
from jobs.execution.kept_stages import KeptStages
from jobs.execution.lease import Lease
from jobs.execution.outputs import missing, scrubber_of
from jobs.execution.progress import JobProgress
from jobs.execution.results import Results
from jobs.execution.shard_plan import ShardPlan
from jobs.execution.simulator_run import arguments_of
from jobs.execution.time_limits import Budget, JobLimit
from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Build, Job, ShardedStage
from jobs.planning import input_text, multistage, past_jobs
from jobs.planning.input_text import InputText
from jobs.planning.multistage import Stage, StagePlan
from jobs.planning.past_jobs import PastJob, StageStatistics
from jobs.results import details, labels
from simc.reports import BrokenReport
from simc.shortfall import Asked
from simservice.ids import next_id
from simservice.telemetry import known_errors

logger = logging.getLogger(__name__)

# The artifacts of a job in stages that belong to none of them
JOB_ARTIFACTS = (Artifact.Kind.JSON_REPORT, Artifact.Kind.CSV_REPORT)


def run_stages(
    job: Job,
    build: Build,
    profile_text: str,
    *,
    lease: Lease,
    budget: Budget,
    secrets: GameCredentials | None,
    stored: list[Artifact],
    sharded: list[ShardedStage],
) -> Outcome:
    """Run a job's stages on a build, and return its outcome.

    Adds each stored artifact to `stored`, and each stage with shards to `sharded`.

    Raises CannotRun if the profile cannot run on the build, GivesUp or a database error.
    """
    found = input_text.read(job, profile_text, build)
    plan = multistage.plan(found.analysis, wanted=job.multi_stage, bounds=input_text.bounds())
    count = len(plan.stages)
    statistics = past_jobs.recent(job.account_id, stages=count) if count > 1 else None
    limit = JobLimit(job, lease, budget)
    stages = Stages(
        job,
        build,
        found,
        plan,
        limit,
        statistics,
        submitted=profile_text,
        secrets=secrets,
        stored=stored,
        sharded=sharded,
    )
    return stages.run()


class Stages:
    """Runs a job's stages in turn.

    Adds each stored artifact to `stored`, and each stage with shards to `sharded`, for the caller to remove.
    """

    def __init__(
        self,
        job: Job,
        build: Build,
        found: InputText,
        plan: StagePlan,
        limit: JobLimit,
        statistics: StageStatistics | None,
        *,
        submitted: str,
        secrets: GameCredentials | None,
        stored: list[Artifact],
        sharded: list[ShardedStage],
    ) -> None:
        self.job, self.build, self.limit, self.lease = job, build, limit, limit.lease
        self.input, self.analysis, self.submitted_text = found, found.analysis, submitted
        self.plan, self.secrets, self.stored, self.sharded = plan, secrets, stored, sharded
        # An attempt whose build broke at its start leaves a stage to itself.
        may_exist = job.parallel_slots > 1 and (job.attempt > 1 or bool(sharded))
        self.kept = KeptStages(job, build, limit.lease, may_exist=may_exist)
        self.scrubber = scrubber_of(secrets)
        # The suffix of the names of replicates
        self.suffix = multistage.suffix_for(found.text) if plan.enabled else ""
        self.results = Results(plan, found.analysis)
        self.report = JobReport(self.results) if plan.enabled else None
        scrub = self.scrubber.without(self.suffix).text
        self.progress = JobProgress(job, plan.stages, statistics, analysis=found.analysis, scrub=scrub)
        self.wall_ms = 0
        # The figures of an earlier stage
        self.measured: PastJob | None = None
        self.ids: Iterator[int] = iter(())
        # Of the artifacts of all stages
        self.first_ids: list[int] = []
        # What the stage that runs now is asked to do
        self.asked = Asked()
        self.missing: list[dict[str, Any]] = []

    def run(self) -> Outcome:
        """Run the stages until one does not complete, and return the job's outcome.

        Raises GivesUp or a database error.
        """
        with self.report or nullcontext():
            return self._run()

    def _run(self) -> Outcome:
        for stage in self.plan.stages:
            outcome = self._outcome_before(stage) or self._run_stage(stage)
            if outcome.status != Status.COMPLETED:
                break
        if outcome is job_moves.INTERNAL:
            return outcome
        self._store_results()
        report = self.results.report
        return replace(
            outcome,
            missing_artifacts=self._missing_artifacts(),
            slots_used=self._slots_used(),
            details=details.packed(report.details, scrub=self.scrubber.text) if report and report.details else None,
        )

    def _slots_used(self) -> int | None:
        """Return how many slots ran simulators, None if none ran. One query if the job ran in shards."""
        if self.sharded:
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
        reason = self.limit.stop_reason()
        return self._with_usage(verdict.stopped(self.job, reason), stopped_for=reason) if reason else None

    def _run_stage(self, stage: Stage) -> Outcome:
        """Run one stage, store its outputs, and return the job's outcome if no other stage follows."""
        work = self._work(stage)
        self.asked = work.asked
        self.progress.enter(stage, profilesets=self.results.remaining, replicates=work.replicates)
        with closing(self._shards(work)) as shards:
            wall_ms, stopped_for = shards.run()
            if self.job.status == Status.STARTING:
                # It was stopped before its first simulator started. Nothing is billed.
                return job_moves.CANCELLED if stopped_for == StopReason.CANCELLED else shards.result().outcome
            self.wall_ms += wall_ms
            self.lease.require()
            self.ids = shards.ids
            if self.report is not None and not self.first_ids:
                # Artifacts are listed by id, and those of all stages come first.
                self.first_ids = [next(shards.ids, None) or next_id() for _ in JOB_ARTIFACTS]
            try:
                result = shards.result()
                self._add(stage, result, seconds=wall_ms / 1000)
                outcome = self._with_usage(result.outcome, stopped_for=stopped_for)
                self.stored += artifact_files.store_all(
                    self.job, self._artifacts(stage, shards, result), stage=work.number, ids=shards.ids
                )
                self.missing += shards.missing
            except (GivesUp, DatabaseError):
                raise
            except Exception as error:
                if known_errors.machine_problem(error):
                    raise
                logger.exception("job %s attempt %s failed with an internal error", self.job.pk, self.job.attempt)
                # Only the logs of this stage are kept.
                artifact_files.discard(self.stored)
                self.stored.clear()
                self.stored += artifact_files.store_all(self.job, shards.logs(), stage=work.number)
                return job_moves.INTERNAL
        return outcome

    def _work(self, stage: Stage) -> StageWork:
        """Return what a stage runs, and how it is split into shards. No query with one slot."""
        culled = self.results.culled
        replicates = multistage.replicates(stage, self.analysis, culled=culled, suffix=self.suffix)
        stage_text = partial(multistage.stage_text, stage, self.input.text, self.analysis, culled=culled)
        text = stage_text(replicates=replicates)
        # Only the last stage writes the HTML report, if it was requested.
        has_html = self.job.html and stage.is_last
        asked = shard_plan.asked_of(
            stage,
            self.analysis,
            text=self.input.text,
            culled=culled,
            replicated=len(replicates) == self.results.remaining,
            threads=self.job.vcpus,
        )
        return StageWork(
            stage=stage,
            number=stage.number if self.plan.enabled else None,
            text=text,
            asked_text=stage_text(replicates={}) if replicates else text,
            arguments=arguments_of(self.job, has_html=has_html),
            replicates=replicates,
            suffix=self.suffix if replicates else "",
            asked=asked,
            has_html=has_html,
            shards=self._shard_plan(stage, replicates=replicates, has_html=has_html),
        )

    def _shard_plan(self, stage: Stage, *, replicates: Mapping[str, str], has_html: bool) -> ShardPlan | None:
        """Return how a stage is split, as by an earlier attempt if it can be continued. None for one process."""
        text, analysis, culled = self.input.text, self.analysis, self.results.culled
        kept = self.kept.plan(stage, text=text, analysis=analysis, culled=culled, replicates=replicates)
        return kept or shard_plan.plan(
            self.job,
            self.build,
            stage,
            text=text,
            submitted_text=self.submitted_text,
            analysis=analysis,
            culled=culled,
            replicates=replicates,
            has_html=has_html,
            measured=self.measured,
        )

    def _shards(self, work: StageWork) -> Conductor | OnlyShard:
        if work.shards is not None:
            conductor = Conductor(work, work.shards, self.job, self.build, self.limit, self.progress)
            self.sharded.append(conductor.stage)
            return conductor
        return OnlyShard(
            work,
            self.job,
            self.build,
            self.limit,
            self.progress,
            scrubber=self.scrubber,
            credentials=self.secrets,
        )

    def _add(self, stage: Stage, result: StageResult, *, seconds: float) -> None:
        """Add the result of a stage, and cull if it completed."""
        report = None if isinstance(result.report, BrokenReport) else result.report
        self.results.notes += result.notes
        self.results.add_warnings(result.warnings)
        self.results.add_stage(stage, report, is_complete=result.outcome.status == Status.COMPLETED)
        if report is not None:
            self.progress.live.add_reported_baseline(report)
            self.progress.live.add_reported(report)
        if report is not None and result.outcome.status == Status.COMPLETED and not stage.is_last:
            self.results.cull(report, widening=result.widening)
            self.progress.live.widening = self.results.widening
            self.measured = past_jobs.measured(report, seconds=seconds) or self.measured

    def _with_usage(self, outcome: Outcome, *, stopped_for: str | None) -> Outcome:
        """Return an outcome with the attempt's usage, credits and results so far."""
        budget = self.limit.budget
        # Shards can leave seconds that none of them could use.
        is_capped = stopped_for == StopReason.CEILING and not self.sharded
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
            percent=self.progress.estimate.percent,
        )

    def _reason_of(self, outcome: Outcome, *, was_stopped: bool) -> str | None:
        """Return why a job ended, with the line of the profile at fault or with what was not simulated."""
        if was_stopped:
            return labels.with_not_reached(outcome.reason, self.results.not_reached)
        if outcome.reason is None or outcome.error_code != ErrorCode.SIMULATION_ERROR:
            return outcome.reason
        return self.input.located(outcome.reason)

    def _artifacts(self, stage: Stage, shards: Conductor | OnlyShard, result: StageResult) -> Contents:
        """Return the artifacts of a stage. Its report, if any, is added to the job's report."""
        if self.report is None or isinstance(result.report, BrokenReport):
            return shards.artifacts()
        return self.report.reading(shards.artifacts(), stage=stage.number)

    def _store_results(self) -> None:
        """Store the report of all stages and the CSV table, if there are any. Raises NotStored or WorkerStops."""
        contents = list(self._results())
        if contents:
            ids = chain(self.first_ids, self.ids)
            self.stored += artifact_files.store_all(self.job, contents, ids=ids)

    def _results(self) -> Contents:
        """Yield the artifacts of all stages. If one of them cannot be written, it is added to `missing`."""
        if self.report is not None and self.results.report is not None:
            report = self.report.open()
            if report is not None:
                yield Artifact.Kind.JSON_REPORT, report
            else:
                reason = self.report.problem or ""
                self.missing.append(missing(Artifact.Kind.JSON_REPORT, stage=None, reason=reason))
        if not self.job.csv:
            return
        table = self.results.table()
        if table is not None:
            yield Artifact.Kind.CSV_REPORT, table
        else:
            self.missing.append(
                missing(Artifact.Kind.CSV_REPORT, stage=None, reason="there are no results to list")
            )

    def _missing_artifacts(self) -> list[dict[str, Any]]:
        """Return the requested artifacts that could not be stored; none if no simulator has run."""
        last, ran = self.plan.stages[-1], len(self.results.stages)
        if not ran:
            return []
        if self.job.html and ran < last.number:
            reason = "the job ended before the last stage, which creates it"
            self.missing.append(missing(Artifact.Kind.HTML_REPORT, stage=last.number, reason=reason))
        return self.missing
