"""The conductor of a sharded stage: the slot that claimed the job.

It creates the shards, runs those that no other slot runs, observes the others, and takes in their reports. Every
write names the attempt, so a conductor that lost its lease changes nothing.
"""

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from django.db import Error as DatabaseError
from django.utils import timezone

from jobs.enums import ShardStatus, Status, StopReason
from jobs.execution import shard_progress, shard_texts, simulation, verdict
from jobs.execution.lease import Lease, LeaseLost
from jobs.execution.periodic_thread import PeriodicThread
from jobs.execution.shard_intake import Intake
from jobs.execution.shard_lease import ShardLease
from jobs.execution.shard_results import ShardResult
from jobs.execution.shard_run import ShardRun
from jobs.execution.shard_texts import CutProfile, ProfilesetText
from jobs.execution.simulation import BuildBroken, RunLost
from jobs.execution.watcher import Watcher
from jobs.lifecycle import cancellation, shard_moves
from jobs.lifecycle.job_moves import MAX_LOSSES, Outcome
from jobs.lifecycle.shard_moves import ClaimedShard, StageState
from jobs.models import Build, Job, Shard, ShardedStage
from jobs.planning.multistage import Stage
from jobs.queue import announcements, executables
from simc import messages
from simc.profiles.numbers import Numbers
from simc.progress import ProgressMeter
from simservice import shutdown
from simservice.redis.client import best_effort

logger = logging.getLogger(__name__)

OBSERVE_SECONDS = 0.5
POLL_SECONDS = 0.1
# The allowance that a shard receives at a time; smaller if the job's cap is small.
SLICE_MS = 15_000
MIN_SLICE_MS = 4_000


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """How a stage is split: its text in parts, its numbers, and the profilesets of each shard but the first."""

    stage: Stage
    profile: CutProfile
    numbers: Numbers
    groups: Sequence[Sequence[ProfilesetText]]


@dataclass(frozen=True, kw_only=True)
class Conducted:
    """The end of a sharded stage: its outcome, the reason if it was stopped, the billed time, and warnings."""

    outcome: Outcome
    stopped_for: StopReason | None
    billed_ms: int
    warnings: list[str]


class Conductor:
    """Conducts one stage of a job."""

    def __init__(self, plan: ShardPlan, *, job: Job, build: Build, lease: Lease, watcher: Watcher) -> None:
        self.plan, self.job, self.lease, self.watcher = plan, job, lease, watcher
        self.budget = watcher.budget
        # Simulator time of earlier stages
        self.before_ms = round(watcher.ran_before * 1000)
        self.stage = self._new_stage(build)
        # This slot and a thread observe the shards, but only one at a time may change the budget and the progress.
        self.observing = threading.Lock()
        self.intake = Intake(plan.numbers, self.stage, groups=plan.groups)
        # The lease of the shard that this slot runs now.
        self.own: ShardLease | None = None
        self.own_meter = ProgressMeter()
        self.own_number = 0
        self.failure: Exception | None = None

    def _new_stage(self, build: Build) -> ShardedStage:
        return ShardedStage(
            job=self.job,
            attempt=self.job.attempt,
            stage=self.plan.stage.number,
            build=build,
            executable_sha256=self._sha256_of(build),
            priority=self.job.priority,
            slots=self.job.parallel_slots,
            base_text=self.plan.profile.base,
            numbers=self.plan.numbers.lines,
            funded_ms=self._funded_ms(),
            slice_ms=self._slice_ms(),
            created_at=timezone.now(),
        )

    def _sha256_of(self, build: Build) -> str:
        """Return the SHA-256 of the executable. Raises LeaseLost, or BuildBroken if reading fails twice."""
        try:
            return executables.sha256_of(build)
        except OSError as error:
            logger.warning("the executable of a build cannot be read; trying again: %s", error)
        self.lease.pause(simulation.SECOND_START_SECONDS)
        try:
            return executables.sha256_of(build)
        except OSError as error:
            raise BuildBroken(str(error)) from error

    def _funded_ms(self) -> int:
        """Return how much simulator time the hold pays for in this stage."""
        return max(0, self.budget.seconds * 1000 - self.before_ms)

    def _hold_for(self, shards: int) -> None:
        """Hold credits for all slots that can start with a shard, so that none waits for credits."""
        ahead_ms = min(self.stage.slots, shards) * self.stage.slice_ms
        self.budget.extend_when_due(ran_seconds=self.before_ms / 1000, ahead_seconds=ahead_ms / 1000)
        self.stage.funded_ms = self._funded_ms()

    def _slice_ms(self) -> int:
        share_ms = self.job.ceiling_runtime_seconds * 1000 // (2 * self.job.parallel_slots)
        return max(MIN_SLICE_MS, min(SLICE_MS, share_ms))

    def run(self) -> Conducted:
        """Run the stage's shards, and return how it ended. The reports are in `intake`.

        Raises LeaseLost, WorkerStops, BuildBroken, BuildReplaced, RunLost, NotStored or a database error.
        """
        shards = self._shards()
        self.lease.retry(lambda: self._hold_for(len(shards)))
        if not self.lease.retry(lambda: shard_moves.create(self.stage, shards, self.job)):
            raise LeaseLost(self.job.pk)
        try:
            with (
                PeriodicThread(self._observe, seconds=OBSERVE_SECONDS, name=f"conductor-{self.job.pk}"),
                PeriodicThread(self.intake.take_in, seconds=OBSERVE_SECONDS, name=f"intake-{self.job.pk}"),
            ):
                self._run_shards()
            return self._conclude()
        finally:
            with suppress(DatabaseError):
                self._remove()

    def _remove(self) -> None:
        """Remove the rows of the stage. The intake then removes the files of all tries."""
        self.intake.tries |= dict(Shard.objects.filter(stage=self.stage).values_list("number", "try_number"))
        shard_moves.remove(self.stage.pk)

    def _shards(self) -> list[Shard]:
        """Return the shards of the stage: the whole profile, then its profilesets in groups."""
        first = Shard(stage=self.stage, number=0, text="", profilesets=len(self.plan.profile.profilesets))
        numbers = self.plan.numbers
        others = [
            Shard(
                stage=self.stage,
                number=number,
                text=shard_texts.shard_text(group, numbers=numbers),
                profilesets=len(group),
            )
            for number, group in enumerate(self.plan.groups, start=1)
        ]
        return [first, *others]

    def _run_shards(self) -> None:
        """Run shards in this slot, or wait for others, until none can run any more."""
        while True:
            self.lease.require()
            shutdown.stop.require_time()
            if self.failure is not None:
                raise self.failure
            claimed = self._claim()
            if claimed is not None:
                self._run_own(claimed)
            elif self._is_over():
                return
            else:
                self.lease.pause(POLL_SECONDS)

    def _claim(self) -> ClaimedShard | None:
        """Start a try of the next waiting shard in this slot, or return None."""
        claim = partial(shard_moves.claim, self.stage.pk, worker=self.job.worker, conducts=True)
        return self.lease.retry(claim)

    def _is_over(self) -> bool:
        """Return whether no shard runs and none can start, and all reports are taken in.

        Raises LeaseLost or NotStored.
        """
        self.lease.retry(self.intake.take_in)
        # The lock keeps reports from being rejected after the state is read.
        with self.intake.lock:
            state = self._state()
            if state.running or self._can_start(state):
                return False
            return self.lease.retry(self.intake.is_complete)

    def _state(self) -> StageState:
        """Observe the shards and return their state. Raises LeaseLost."""
        state = self.lease.retry(self._observe)
        if state is None:
            raise LeaseLost(self.job.pk)
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
        with ShardLease(self.job, shard, slice_ms=self.stage.slice_ms) as own:
            self.own = own
            try:
                ShardRun(
                    shard,
                    self.stage,
                    own,
                    text=self._input_of(shard),
                    on_line=self._on_line,
                    # Helpers can start once the job runs, so wake them before the next observation.
                    on_start=self._state if shard.number == 0 else None,
                    on_line_end=self.watcher.on_line_end,
                ).run()
            except LeaseLost:
                # Only this try is lost, unless the job's lease is lost too.
                self.lease.require()
                self.lease.retry(partial(shard_moves.give_back, shard, losses=1))
            finally:
                self.own = None

    def _on_line(self, stream: str, text: str) -> None:
        """Process an update of the output of the shard that this slot runs."""
        self.watcher.publisher.log.update(stream, text)
        if stream != "stdout":
            return
        update, finished = self.own_meter.feed(text), self.own_meter.take_finished()
        # Only the first shard has the full baseline, and its profilesets have one iteration.
        if self.own_number == 0:
            self.watcher.live.add_baseline(update)
            return
        for run in finished:
            self.watcher.live.add(run)

    def _input_of(self, shard: ClaimedShard) -> str:
        if shard.number == 0:
            return shard_texts.first_input(self.plan.profile, numbers=self.plan.numbers)
        return input_of(shard, self.stage)

    def _observe(self) -> StageState | None:
        """Return the state of the shards, after handling lost and failed shards, funds, hints and progress.

        Return None if the stage was removed. Raises a database error.
        """
        with self.observing:
            state = shard_moves.state(self.stage.pk)
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
            shard_moves.lose(self.stage.pk, shard_id, try_number)
        if state.losses >= MAX_LOSSES:
            self.failure = RunLost(f"a shard of stage {self.stage.stage} was lost {state.losses} times")
            if (own := self.own) is not None:
                own.lost.set()

    def _stop_if_due(self, state: StageState) -> None:
        """Stop the running shards if one has failed, or if the job was cancelled."""
        self.watcher.check_cancellation()
        if state.failed and shard_moves.stop(self.stage.pk, StopReason.SHARD_FAILED):
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
        shard_moves.fund(self.stage.pk, funded_ms=funded_ms)
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
        sizes = [1, *map(len, self.plan.groups)]
        percents, runs = shard_progress.take(self.stage)
        for run in runs:
            self.watcher.live.add(run)
        shares = {**percents, self.own_number: self.own_meter.percent}
        ended = self.intake.numbers
        running = sum(sizes[n] * share / 100 for n, share in shares.items() if n not in ended and n < len(sizes))
        done = sum(sizes[number] for number in ended)
        self.watcher.estimate.meter.advance_to(100 * (done + running) / sum(sizes))
        self.watcher.publish()

    def _conclude(self) -> Conducted:
        """Return how the stage ended, from the rows of its shards."""
        shards = self.lease.retry(lambda: list(Shard.objects.filter(stage=self.stage).order_by("number")))
        results = [ShardResult.of_json(shard.result) for shard in shards if shard.result]
        billed_ms = sum(shard.billed_ms for shard in shards)
        self.watcher.ran_before += billed_ms / 1000
        outcome, stopped_for = self._outcome_of(shards, results)
        return Conducted(
            outcome=outcome,
            stopped_for=stopped_for,
            billed_ms=billed_ms,
            warnings=messages.distinct([text for result in results for text in result.warnings]),
        )

    def _outcome_of(
        self, shards: Sequence[Shard], results: Sequence[ShardResult]
    ) -> tuple[Outcome, StopReason | None]:
        """Return the outcome of the stage, and why it was stopped, if it was."""
        for shard in shards:
            if shard.status == ShardStatus.FAILED and shard.result:
                return ShardResult.of_json(shard.result).outcome, None
        if all(shard.status == ShardStatus.DONE for shard in shards):
            return Outcome(status=Status.COMPLETED, exit_code="0"), None
        reason = self._stop_reason()
        failed = (result.exit_code for result in results if result.exit_code != "0")
        exit_code = next(failed, "0" if results else None)
        return replace(verdict.stopped(self.job, reason), exit_code=exit_code), reason

    def _stop_reason(self) -> StopReason:
        if self.lease.cancelled.is_set():
            return StopReason.CANCELLED
        return StopReason.CEILING if self.budget.is_complete else StopReason.CREDITS


def input_of(shard: ClaimedShard, stage: ShardedStage) -> str:
    """Return the input of a shard other than the first."""
    numbers = stage.numbers if shard.full_baseline else shard_texts.ONE_ITERATION
    return shard_texts.shard_input(stage.base_text, shard.text, numbers=numbers)
