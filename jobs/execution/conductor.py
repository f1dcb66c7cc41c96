"""The shards of a stage, conducted by the slot that claimed the job.

A stage of one shard runs as one process in this slot and has no rows. Of several shards, the conductor creates the
rows, or adopts those of an earlier attempt, runs unclaimed shards itself, observes the others, and collects all
reports. Every write names the attempt, so a conductor that lost its lease changes nothing.
"""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO

from django.utils import timezone

from jobs.artifacts.credentials import GameCredentials
from jobs.enums import ShardStatus, Status, StopReason
from jobs.errors import WorkerStops
from jobs.execution import progress, shard_plan, simulator_run, verdict
from jobs.execution.directories import private_directory
from jobs.execution.lease import LeaseLost
from jobs.execution.machine import RunLost
from jobs.execution.outputs import Outputs, Scrubber, missing
from jobs.execution.periodic_thread import PeriodicThread
from jobs.execution.progress import JobProgress
from jobs.execution.shard_files import ShardResult
from jobs.execution.shard_plan import ShardPlan
from jobs.execution.shard_results import ShardResults
from jobs.execution.simulator_run import Callbacks, ShardRun, SimulatorRun
from jobs.execution.time_limits import Allowance, JobLimit
from jobs.lifecycle import cancellation, job_moves, shard_moves
from jobs.lifecycle.job_moves import MAX_LOSSES, Outcome
from jobs.lifecycle.shard_moves import ClaimedShard, StageState
from jobs.models import Artifact, Build, Job, Shard, ShardedStage
from jobs.planning.multistage import Stage, pooled, widening
from jobs.queue import announcements, executables
from simc import command, messages
from simc.progress import ProgressMeter
from simc.reports import BrokenReport, Report
from simc.shortfall import Asked, shortfall
from simservice import shutdown
from simservice.redis.client import best_effort

logger = logging.getLogger(__name__)

OBSERVE_SECONDS = 0.5
POLL_SECONDS = 0.1
# The allowance that a shard receives at a time; smaller if the job's cap is small.
ALLOWANCE_MS = 15_000
MIN_ALLOWANCE_MS = 4_000

RAN_TWICE = "# The service ran the profilesets of this stage twice and combined the results of both runs.\n"

Contents = Iterator[tuple[Artifact.Kind, BinaryIO]]


@dataclass(frozen=True, kw_only=True)
class StageWork:
    """What a stage runs: its whole text, with each profileset in `replicates` twice, and what it is asked to do.

    `asked_text` is the text without replicates, whose names end with `suffix`. `shards` says how it is split, None
    if it is one shard. `number` is that of its artifacts, None for a single pass.
    """

    stage: Stage
    number: int | None
    text: str
    asked_text: str
    arguments: list[str]
    replicates: Mapping[str, str]
    suffix: str
    asked: Asked
    has_html: bool
    shards: ShardPlan | None

    @property
    def input_text(self) -> str:
        """Return the text of the input artifact, with the arguments and without replicates."""
        text = command.input_text(self.asked_text, self.arguments)
        return text + RAN_TWICE if self.replicates else text


@dataclass(frozen=True, kw_only=True)
class StageResult:
    """The result of a stage: the job's outcome if no other stage follows, and its report, with each profileset
    once.

    `widening` is the factor by which replicates differ more than reported. `notes` are warnings of the service,
    `warnings` those of the simulator.
    """

    outcome: Outcome
    report: Report | BrokenReport
    widening: float
    warnings: Sequence[str]
    notes: Sequence[str] = ()


class OnlyShard:
    """Runs a stage of one shard in this slot."""

    def __init__(
        self,
        work: StageWork,
        job: Job,
        build: Build,
        limit: JobLimit,
        progress: JobProgress,
        *,
        scrubber: Scrubber,
        credentials: GameCredentials | None,
    ) -> None:
        self.work, self.job, self.build, self.limit = work, job, build, limit
        self.scrubber, self.credentials = scrubber, credentials
        callbacks = Callbacks(
            on_line=progress.on_line, on_line_end=progress.on_line_end, actions=[progress.publish]
        )
        self.simulator = SimulatorRun(job, build, limit, callbacks, stage=work.stage.number)
        self.progress = progress
        self.resources = ExitStack()
        self.ids: Iterator[int] = iter(())
        self.missing: list[dict[str, Any]] = []

    def run(self) -> tuple[int, str | None]:
        """Run the shard; return its milliseconds and, if it was stopped, the reason.

        Raises LeaseLost, WorkerStops, BuildBroken, RunLost or MachineFault.
        """
        directory = self.resources.enter_context(private_directory())
        self.ended = self.simulator.run(
            directory, self.work.text, arguments=self.work.arguments, credentials=self.credentials
        )
        self.limit.end_stage(self.ended.wall_seconds)
        self.progress.estimate.advance()
        fields = self.simulator.end_fields(self.ended)
        self.ids = self.limit.lease.retry(lambda: job_moves.end_run(fields))
        self.outputs = Outputs(
            self.job,
            directory,
            self.scrubber,
            stage=self.work.number,
            has_html=self.work.has_html,
            replicated=self.work.replicates,
            suffix=self.work.suffix,
        )
        self.missing = self.outputs.missing
        return int(fields["wall_ms"]), self.ended.stopped_for

    def result(self) -> StageResult:
        """Return the result of the stage. Raises BuildBroken, RunLost or MachineFault."""
        ended, outputs = self.ended, self.outputs
        report, factor = _pooled(outputs.report, self.work)
        outcome = self.simulator.outcome(ended, outputs, report=report, asked=self.work.asked)
        is_completed = outcome.status == Status.COMPLETED
        is_reporting = self.simulator.is_reporting and ended.stopped_for in verdict.JOB_STOPS
        if outputs.has_html and (is_completed or is_reporting):
            outputs.html_problem = verdict.html_problem(ended, outputs)
        return StageResult(
            outcome=replace(outcome, exit_code=verdict.exit_code(ended)),
            report=report,
            widening=factor,
            warnings=[*outputs.version_warnings(self.build), *outputs.warnings()],
            notes=outputs.html_warnings() if is_completed else (),
        )

    def artifacts(self) -> Contents:
        """Yield the stage's artifacts. Those that it lacks are then in `missing`."""
        return self.outputs.artifacts(self.work.input_text)

    def logs(self) -> Contents:
        """Yield the stage's logs."""
        return self.outputs.logs()

    def close(self) -> None:
        """Remove the files of the run."""
        self.resources.close()


class Conductor:
    """Conducts a stage of several shards."""

    def __init__(
        self, work: StageWork, plan: ShardPlan, job: Job, build: Build, limit: JobLimit, progress: JobProgress
    ) -> None:
        self.work, self.plan, self.job, self.build, self.progress = work, plan, job, build, progress
        self.limit, self.lease, self.budget = limit, limit.lease, limit.budget
        # Simulator time of earlier stages
        self.before_ms = round(limit.ran_before * 1000)
        # Scale factors and plots run in the first shard.
        self.additional_runs = progress.estimate.additional(work.stage)
        self.stage = plan.kept or self._new_stage()
        # This slot and a thread observe the shards, but only one at a time may change the budget and the progress.
        self.observing = threading.Lock()
        self.results = ShardResults(
            plan.numbers, self.stage, groups=plan.groups, replicated=work.replicates, suffix=work.suffix
        )
        # The allowance of the shard that this slot runs now.
        self.own: Allowance | None = None
        self.own_meter = ProgressMeter()
        self.own_number = 0
        # The shards whose reports are in the preview
        self.previewed: set[int] = set()
        self.failure: Exception | None = None
        self.ids: Iterator[int] = iter(())
        self.missing: list[dict[str, Any]] = []

    def _new_stage(self) -> ShardedStage:
        return ShardedStage(
            job=self.job,
            attempt=self.job.attempt,
            created_by_attempt=self.job.attempt,
            stage=self.work.stage.number,
            build=self.build,
            priority=self.job.priority,
            slots=self.job.parallel_slots,
            base_text=self.plan.profile.base,
            numbers=self.plan.numbers.lines,
            funded_ms=self._funded_ms(),
            slice_ms=self._slice_ms(),
            created_at=timezone.now(),
        )

    def _funded_ms(self) -> int:
        """Return how much simulator time the hold pays for in this stage."""
        return max(0, self.budget.seconds * 1000 - self.before_ms)

    def _slice_ms(self) -> int:
        share_ms = self.job.ceiling_runtime_seconds * 1000 // (2 * self.job.parallel_slots)
        return max(MIN_ALLOWANCE_MS, min(ALLOWANCE_MS, share_ms))

    def _hold_for(self, shards: int) -> None:
        """Hold credits for all slots that can start with a shard, so that none waits for credits."""
        ahead_ms = min(self.stage.slots, shards) * self.stage.slice_ms
        self.budget.extend_when_due(ran_seconds=self.before_ms / 1000, ahead_seconds=ahead_ms / 1000)
        self.stage.funded_ms = self._funded_ms()

    def run(self) -> tuple[int, str | None]:
        """Run the shards; return their milliseconds and, if they were stopped, the reason.

        Raises LeaseLost, WorkerStops, BuildBroken, BuildReplaced, RunLost, NotStored or a database error.
        """
        if not (self._adopt() if self.plan.kept else self._create()):
            raise LeaseLost
        with (
            PeriodicThread(self._observe, seconds=OBSERVE_SECONDS, name=f"conductor-{self.job.pk}"),
            PeriodicThread(self.results.collect, seconds=OBSERVE_SECONDS, name=f"collector-{self.job.pk}"),
        ):
            self._run_shards()
        return self._conclude()

    def _create(self) -> bool:
        """Create the stage and its shards. Return False if the attempt is over."""
        sha256_of = partial(executables.sha256_of, self.build)
        self.stage.executable_sha256 = simulator_run.tried_twice(sha256_of, OSError, lease=self.lease)
        shards = self._shards()
        self.lease.retry(lambda: self._hold_for(len(shards)))
        return self.lease.retry(lambda: shard_moves.create_stage(self.stage, shards, self.job))

    def _adopt(self) -> bool:
        """Take over the stage of an earlier attempt. Return False if the attempt is over."""
        return self.lease.retry(lambda: shard_moves.adopt_stage(self.stage, self.job, funded_ms=self._funded_ms()))

    def _shards(self) -> list[Shard]:
        """Return the shards of the stage: the whole profile, then its profilesets in groups."""
        first = Shard(stage=self.stage, number=0, text="", profilesets=len(self.plan.profile.profilesets))
        numbers = self.plan.numbers
        others = [
            Shard(
                stage=self.stage,
                number=number,
                text=shard_plan.shard_text(group, numbers=numbers),
                profilesets=len(group),
            )
            for number, group in enumerate(self.plan.groups, start=1)
        ]
        return [first, *others]

    def _run_shards(self) -> None:
        """Run shards in this slot, or wait for others, until none can run any more."""
        while True:
            self.lease.require()
            if not shutdown.stop.has_time():
                raise WorkerStops
            if self.failure is not None:
                raise self.failure
            claim = partial(
                shard_moves.claim_shard, self.stage.pk, worker=self.job.worker, attempt=self.stage.attempt
            )
            claimed = self.lease.retry(claim)
            if claimed is not None:
                self._run_own(claimed)
            elif self._is_over():
                return
            else:
                self.lease.pause(POLL_SECONDS)

    def _is_over(self) -> bool:
        """Return whether no shard runs and none can start, and all reports are collected.

        Raises LeaseLost or NotStored.
        """
        self.lease.retry(self.results.collect)
        # The lock keeps reports from being rejected after the state is read.
        with self.results.lock:
            state = self._state()
            if state.running or self._can_start(state):
                return False
            return self.lease.retry(self.results.is_complete)

    def _state(self) -> StageState:
        """Observe the shards and return their state. Raises LeaseLost."""
        state = self.lease.retry(self._observe)
        if state is None:
            raise LeaseLost
        return state

    def _can_start(self, state: StageState) -> bool:
        """Return whether a shard can start, perhaps after holding more credits. Raises LeaseLost."""
        if not state.waiting or state.failed or self.lease.cancelled.is_set():
            return False
        if state.free_ms <= 0:
            # The account may have received credits since the last request for more.
            self.budget.next_at = 0.0
            state = self._state()
        return state.free_ms > 0

    def _run_own(self, shard: ClaimedShard) -> None:
        """Run a shard in this slot. Raises the errors that end the attempt."""
        self.own_meter, self.own_number = ProgressMeter(expected_phases=1 + shard.profilesets), shard.number
        self.own = Allowance(self.job, shard, slice_ms=self.stage.slice_ms)
        callbacks = Callbacks(
            on_line=self._on_line,
            on_line_end=self.progress.on_line_end,
            # Helpers can start once the job runs, so wake them before the next observation.
            on_start=self._state if shard.number == 0 else None,
        )
        try:
            with self.own.lease:
                ShardRun(shard, self.stage, self.own, callbacks).run_shard(self._input_of(shard))
        except LeaseLost:
            # Only this try is lost, unless the job's lease is lost too.
            self.lease.require()
            self.lease.retry(partial(shard_moves.return_shard, shard, losses=1))
        finally:
            self.own = None

    def _on_line(self, stream: str, text: str) -> None:
        """Process an update of the output of the shard that this slot runs."""
        self.progress.publisher.log.update(stream, text)
        if stream != "stdout":
            return
        update, finished = self.own_meter.feed(text), self.own_meter.take_finished()
        # Only the first shard has the full baseline, and its profilesets have one iteration.
        if self.own_number == 0:
            self.progress.live.add_baseline(update)
            return
        for run in finished:
            self.progress.live.add(run)

    def _input_of(self, shard: ClaimedShard) -> str:
        if shard.number == 0:
            return shard_plan.first_input(self.plan.profile, numbers=self.plan.numbers)
        return shard_plan.input_of(shard, self.stage)

    def _observe(self) -> StageState | None:
        """Return the state of the shards, after handling lost and failed shards, funds, hints and progress.

        Return None if another attempt has the stage. Raises a database error.
        """
        with self.observing:
            state = shard_moves.read_stage(self.stage)
            if state is None:
                return None
            self._lose_expired(state)
            self._stop_if_due(state)
            state = self._fund(state)
            self._wake_helpers(state)
            self._publish()
            return state

    def _lose_expired(self, state: StageState) -> None:
        """Return lost shards to the queue. After too many losses, give up the attempt."""
        for shard_id, try_number in state.expired:
            shard_moves.lose_expired(self.stage, shard_id, try_number)
        if state.losses >= MAX_LOSSES:
            self.failure = RunLost(f"a shard of stage {self.stage.stage} was lost {state.losses} times")
            if (own := self.own) is not None:
                own.lease.lost.set()

    def _stop_if_due(self, state: StageState) -> None:
        """Stop the running shards if one has failed, or if the job was cancelled."""
        self.limit.check_cancellation()
        if state.failed and shard_moves.stop_stage(self.stage, StopReason.SHARD_FAILED):
            # Helpers notice the hint and renew their leases at once.
            cancellation.hint(self.job)
        own = self.own
        if own is not None and self.lease.cancelled.is_set():
            own.stop_request = StopReason.CANCELLED
        elif own is not None and state.failed:
            own.stop_request = StopReason.SHARD_FAILED

    def _fund(self, state: StageState) -> StageState:
        """Hold more credits if little time is left for the shards that run and those that could start.

        Return the state with the new funds.
        """
        if state.failed or state.stopped:
            # The stage cannot complete any more.
            return state
        slots = min(self.stage.slots, state.running + state.waiting)
        used_seconds = (self.before_ms + state.funded_ms - state.free_ms) / 1000
        self.budget.extend_when_due(ran_seconds=used_seconds, ahead_seconds=slots * self.stage.slice_ms / 1000)
        funded_ms = self._funded_ms()
        if funded_ms <= state.funded_ms:
            return state
        shard_moves.fund_stage(self.stage, funded_ms=funded_ms)
        return replace(state, funded_ms=funded_ms, free_ms=state.free_ms + funded_ms - state.funded_ms)

    def _wake_helpers(self, state: StageState) -> None:
        """Wake as many idle slots as can run a waiting shard now."""
        free_slots = self.stage.slots - max(1, state.running)
        funded = state.free_ms // self.stage.slice_ms
        helpers = min(free_slots, state.waiting, funded)
        if helpers > 0 and not self.lease.cancelled.is_set() and not state.failed:
            best_effort(lambda: announcements.wake(self.stage.priority, slots=helpers), default=0)

    def _publish(self) -> None:
        """Publish the progress and the preview of the job."""
        sizes = [1 + self.additional_runs, *map(len, self.plan.groups)]
        percents, runs = progress.take_shards(self.stage)
        for run in runs:
            self.progress.live.add(run)
        self._preview_reports()
        shares = {**percents, self.own_number: self.own_meter.percent}
        ended = list(self.results.collected)
        running = sum(sizes[n] * share / 100 for n, share in shares.items() if n not in ended and n < len(sizes))
        done = sum(sizes[number] for number in ended)
        self.progress.estimate.meter.advance_to(100 * (done + running) / sum(sizes))
        self.progress.publish()

    def _preview_reports(self) -> None:
        """Add the reports of shards that are done to the preview: the output may contain no means."""
        live, collected = self.progress.live, dict(self.results.collected)
        for number in collected.keys() - self.previewed:
            report = collected[number].report
            if report is not None and collected[number].shard.status == ShardStatus.DONE:
                # Only the first shard has the full baseline, and its profilesets have one iteration.
                (live.add_reported if number else live.add_reported_baseline)(report)
        self.previewed |= collected.keys()

    def _conclude(self) -> tuple[int, str | None]:
        """Read how the stage ended from the rows of its shards. Return what `run` returns."""
        shards = self.lease.retry(lambda: list(Shard.objects.filter(stage=self.stage).order_by("number")))
        ends = [ShardResult.of_json(shard.result) for shard in shards if shard.result]
        warnings = (self.results.scrubber.text(text) for end in ends for text in end.warnings)
        self.warnings = messages.distinct(warnings)
        billed_ms = sum(shard.billed_ms for shard in shards)
        self.limit.end_stage(billed_ms / 1000)
        self.outcome, stopped_for = self._outcome_of(shards, ends)
        return billed_ms, stopped_for

    def _outcome_of(
        self, shards: Sequence[Shard], ends: Sequence[ShardResult]
    ) -> tuple[Outcome, StopReason | None]:
        """Return the outcome of the stage, and why it was stopped, if it was."""
        for shard in shards:
            if shard.status == ShardStatus.FAILED and shard.result:
                outcome = ShardResult.of_json(shard.result).outcome
                return replace(outcome, reason=self.results.scrubber.text(outcome.reason or "") or None), None
        if all(shard.status == ShardStatus.DONE for shard in shards):
            return Outcome(status=Status.COMPLETED, exit_code="0"), None
        reason = StopReason.CANCELLED if self.lease.cancelled.is_set() else self.limit.end_of_budget
        failed = (end.exit_code for end in ends if end.exit_code != "0")
        exit_code = next(failed, "0" if ends else None)
        return replace(verdict.stopped(self.job, reason), exit_code=exit_code), reason

    def result(self) -> StageResult:
        """Return the result of the stage.

        It fails if all shards together lack a profileset that none of them misses: a shard whose own baseline, of
        one iteration, did no damage cannot tell.
        """
        report, factor = _pooled(self.results.report(), self.work)
        outcome, notes = self.outcome, list[str]()
        if outcome.status == Status.COMPLETED and not isinstance(report, BrokenReport):
            asked = self.work.asked
            incomplete = verdict.incomplete(report, replace(asked, profilesets_may_end_early=True))
            if incomplete:
                outcome = replace(incomplete, exit_code=outcome.exit_code)
            elif lack := shortfall(report, asked):
                # The shard ran again with the whole baseline, so the profile itself is the cause.
                notes.append(lack.sentence)
        return StageResult(outcome=outcome, report=report, widening=factor, warnings=self.warnings, notes=notes)

    def artifacts(self) -> Contents:
        """Yield the stage's artifacts, merged from its shards. Those that it lacks are then in `missing`."""
        kinds = set()
        for kind, content in self.results.artifacts(self.work.input_text):
            kinds.add(kind)
            yield kind, content
        if Artifact.Kind.JSON_REPORT not in kinds:
            reason = "the reports of its shards could not be merged"
            self.missing.append(missing(Artifact.Kind.JSON_REPORT, stage=self.work.number, reason=reason))

    def logs(self) -> Contents:
        """Yield the stage's logs, merged from its shards."""
        return self.results.logs()

    def close(self) -> None:
        """Remove the local files of the shards. Their stored files stay until the job ends."""
        self.results.close()


def _pooled(report: Report | BrokenReport, work: StageWork) -> tuple[Report | BrokenReport, float]:
    """Return a report with each profileset once, and the factor by which replicates differ more than reported."""
    if isinstance(report, BrokenReport):
        return report, 1.0
    factor = widening(report.profilesets, work.replicates)
    errors = tuple(map(Scrubber(suffix=work.suffix).text, report.errors))
    return replace(report, profilesets=pooled(report.profilesets, work.replicates), errors=errors), factor
