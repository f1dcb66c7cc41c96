"""Watch simulator processes: their progress and budget, the job's lease and its cancellation."""

import contextlib
import logging
import time

from jobs import cancellation, shutdown
from jobs.execution.budget import Budget
from jobs.execution.lease import Lease
from jobs.execution.periodic_thread import PeriodicThread
from jobs.execution.stage_progress import ProgressEstimate
from jobs.models import Job
from jobs.progress import Progress, Publisher, StageProgress
from jobs.runs.scrubbing import Scrubber
from jobs.simulator.process import Ended, SimulatorProcess
from jobs.simulator.stop_reasons import StopReason

logger = logging.getLogger(__name__)

WATCH_SECONDS = 0.25
UPDATE_SECONDS = 0.5
HINT_SECONDS = 1.0
# A job may exceed its cap by two seconds, including the watcher's own delay.
CAP_GRACE_SECONDS = 1.5
CANCEL_GRACE_SECONDS = 3.0


class Watcher:
    """Watches an attempt's simulator processes, one after the other, and stops them when it is time.

    Everything that can be slow is done by a second thread, so it cannot delay a deadline.
    """

    def __init__(
        self, job: Job, lease: Lease, budget: Budget, *, estimate: ProgressEstimate, scrubber: Scrubber
    ) -> None:
        self.job = job
        self.lease = lease
        self.budget = budget
        self.estimate = estimate
        self.publisher = Publisher(job, scrub=scrubber.text)
        self.ran_before = 0.0
        # By the monotonic clock; None while no process runs.
        self.started: float | None = None
        self.next_hint_at = 0.0

    @property
    def ran_seconds(self) -> float:
        """Return how long the attempt's processes have run in total."""
        return self.ran_before + (0.0 if self.started is None else time.monotonic() - self.started)

    def on_line(self, stream: str, text: str) -> None:
        """Process an update of the simulator's output."""
        self.publisher.log.update(stream, text)
        if stream == "stdout":
            self.estimate.meter.feed(text)

    def on_line_end(self, stream: str) -> None:
        """Note that the last update of a stream is final."""
        self.publisher.log.end_line(stream)

    def watch(self, process: SimulatorProcess, *, started: float) -> Ended:
        """Wait for the end of a process that was `started` (monotonic), and stop it when it is time.

        Raises LeaseLost or WorkerStops.
        """
        self.started = started
        actions = (self._publish, self._check_cancellation, self._extend_budget)
        # The process is closed before the block waits for the thread, which can hang.
        with (
            PeriodicThread(*actions, seconds=UPDATE_SECONDS, name=f"watcher-{self.job.pk}"),
            contextlib.closing(process),
        ):
            while (ended := process.wait(self._seconds_to_next_check())) is None:
                self.lease.require()
                shutdown.stop.require_time()
                if ended := self._stop_when_due(process):
                    break
        self.started = None
        self.ran_before += ended.wall_seconds
        self.estimate.advance()
        return ended

    def _seconds_to_next_check(self) -> float:
        return min(WATCH_SECONDS, max(0.0, self.budget.seconds - self.ran_seconds))

    def stop_reason(self) -> StopReason | None:
        """Return why the attempt must stop now: a cancellation or the end of its budget; None if it may run on."""
        if self.lease.cancelled.is_set():
            return StopReason.CANCELLED
        if self.ran_seconds >= self.budget.seconds:
            return StopReason.CEILING if self.budget.is_complete else StopReason.CREDITS
        return None

    def _stop_when_due(self, process: SimulatorProcess) -> Ended | None:
        """Stop a process when it is time and return how it ended; None if it may run on."""
        reason = self.stop_reason()
        if reason is None:
            return None
        # A budget of less than a second leaves no second for a report either.
        cap_grace = min(CAP_GRACE_SECONDS, self.budget.seconds)
        grace = CANCEL_GRACE_SECONDS if reason == StopReason.CANCELLED else cap_grace
        ended = process.stop(reason, grace_seconds=grace)
        if ended is None:
            raise RuntimeError("the simulator could not be stopped")
        return ended

    def _publish(self) -> None:
        """Publish the job's progress."""
        stage, percent = self.estimate.stage, self.estimate.meter.percent
        progress = StageProgress(current=stage.number, total=stage.count, label=stage.label, percent=percent)
        self.publisher.publish(Progress(percent=self.estimate.advance(), stage=progress))

    def _check_cancellation(self) -> None:
        """Query the database if Redis hints at a cancellation."""
        if time.monotonic() >= self.next_hint_at:
            self.next_hint_at = time.monotonic() + HINT_SECONDS
            if cancellation.is_hinted(self.job):
                self.lease.check_cancellation()

    def _extend_budget(self) -> None:
        """Hold more credits when little time is left."""
        self.budget.extend_when_due(ran_seconds=self.ran_seconds)
