"""Watch simulator processes: their progress and budget, the job's lease and its cancellation."""

import time

from jobs.enums import StopReason
from jobs.execution import simulation
from jobs.execution.budget import Budget
from jobs.execution.lease import Lease
from jobs.execution.live_results import LiveResults
from jobs.execution.scrubbing import Scrubber
from jobs.execution.stage_progress import ProgressEstimate
from jobs.lifecycle import cancellation
from jobs.live.preview import Preview
from jobs.live.progress import Progress, Publisher, StageProgress
from jobs.models import Job
from sandbox.process import ConfinedProcess, Ended

HINT_SECONDS = 1.0
# A line of every simulator after the last fight
REPORTS_BEGIN = "Generating reports"


class Watcher:
    """Watches an attempt's simulator processes, one after the other, and stops them when it is time.

    Everything that can be slow is done by a second thread, so it cannot delay a deadline.
    """

    def __init__(
        self,
        job: Job,
        lease: Lease,
        budget: Budget,
        *,
        estimate: ProgressEstimate,
        live: LiveResults,
        scrubber: Scrubber,
    ) -> None:
        self.job = job
        self.lease = lease
        self.budget = budget
        self.estimate, self.live = estimate, live
        self.publisher = Publisher(job, scrub=scrubber.text, preview=self._preview)
        self.ran_before = 0.0
        # By the monotonic clock; None while no process runs.
        self.started: float | None = None
        self.next_hint_at = 0.0
        # Whether the process must stop, and whether it began to write its reports before that.
        self.must_stop = self.is_reporting = False

    @property
    def ran_seconds(self) -> float:
        """Return how long the attempt's processes have run in total."""
        return self.ran_before + (0.0 if self.started is None else time.monotonic() - self.started)

    def begin(self) -> None:
        """Begin to watch the next process."""
        self.must_stop = self.is_reporting = False

    def on_line(self, stream: str, text: str) -> None:
        """Process an update of the simulator's output."""
        self.publisher.log.update(stream, text)
        if stream == "stdout":
            if text.startswith(REPORTS_BEGIN) and not self.must_stop:
                self.is_reporting = True
            update = self.estimate.meter.feed(text)
            self.live.add_baseline(update)
            for run in self.estimate.meter.take_finished():
                self.live.add(run)

    def on_line_end(self, stream: str) -> None:
        """Note that the last update of a stream is final."""
        self.publisher.log.end_line(stream)

    def watch(self, process: ConfinedProcess, *, started: float) -> Ended:
        """Wait for the end of a process that was `started` (monotonic), and stop it when it is time.

        Raises LeaseLost or WorkerStops.
        """
        self.started = started
        actions = (self.publish, self.check_cancellation, self._extend_budget)
        ended = simulation.watch(
            process, holder=self.lease, limit=self, actions=actions, name=f"watcher-{self.job.pk}"
        )
        self.started = None
        self.ran_before += ended.wall_seconds
        self.estimate.advance()
        return ended

    @property
    def seconds_left(self) -> float:
        """Return how much longer the attempt's processes may run."""
        return self.budget.seconds - self.ran_seconds

    @property
    def cap_grace_seconds(self) -> float:
        """Return how long the simulator may take to write its report after the budget is used up."""
        # A budget of less than a second leaves no second for a report either.
        return min(simulation.CAP_GRACE_SECONDS, self.budget.seconds)

    def stop_reason(self) -> StopReason | None:
        """Return why the attempt must stop now: a cancellation or the end of its budget; None if it may run on."""
        if self.lease.cancelled.is_set():
            reason = StopReason.CANCELLED
        elif self.ran_seconds >= self.budget.seconds:
            reason = StopReason.CEILING if self.budget.is_complete else StopReason.CREDITS
        else:
            return None
        self.must_stop = True
        return reason

    def publish(self) -> None:
        """Publish the job's progress."""
        stage, percent = self.estimate.stage, self.estimate.meter.percent
        progress = StageProgress(current=stage.number, total=stage.count, label=stage.label, percent=percent)
        self.publisher.publish(Progress(percent=self.estimate.advance(), stage=progress))

    def _preview(self) -> Preview | None:
        return self.live.preview(seconds_left=self.estimate.seconds_left)

    def check_cancellation(self) -> None:
        """Query the database if Redis hints at a cancellation."""
        if time.monotonic() >= self.next_hint_at:
            self.next_hint_at = time.monotonic() + HINT_SECONDS
            if cancellation.is_hinted(self.job):
                self.lease.check_cancellation()

    def _extend_budget(self) -> None:
        """Hold more credits when little time is left."""
        self.budget.extend_when_due(ran_seconds=self.ran_seconds)
