"""Watching one simulator process: its progress, its budget, the job's lease and its cancel."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from django.db import connection

from jobs import cancellation, shutdown
from jobs.execution.budget import Budget
from jobs.execution.lease import Lease
from jobs.execution.stage_progress import Course
from jobs.models import Job
from jobs.progress import Progress, Publisher, StageProgress
from jobs.runs import verdict
from jobs.runs.scrubbing import Scrubber
from jobs.simulator.process import Ended, SimulatorProcess

logger = logging.getLogger(__name__)

WATCHED_EVERY_SECONDS = 0.25
ATTENDED_EVERY_SECONDS = 0.5
HINTS_EVERY_SECONDS = 1.0
# A cap may be passed by two seconds at most, the watcher's own delay among them.
CAP_GRACE_SECONDS = 1.5
CANCEL_GRACE_SECONDS = 3.0


class Watcher:
    """Follows an attempt's simulator processes, one after the other, each to its end, or brings that about.

    Whatever may be slow is done by an attendant, a thread beside it: what hangs there delays no deadline.
    """

    def __init__(self, job: Job, lease: Lease, budget: Budget, *, course: Course, scrubber: Scrubber) -> None:
        self.job = job
        self.lease = lease
        self.budget = budget
        self.course = course
        self.publisher = Publisher(job, scrub=scrubber.text)
        self.ran_before = 0.0
        # By the monotonic clock; None while no process runs.
        self.started: float | None = None
        self.next_hint_at = 0.0

    @property
    def ran_seconds(self) -> float:
        """Return how long the attempt's processes have run in all."""
        return self.ran_before + (0.0 if self.started is None else time.monotonic() - self.started)

    def on_line(self, stream: str, text: str) -> None:
        """Take one update of the simulator's output."""
        self.publisher.log.update(stream, text)
        if stream == "stdout":
            self.course.meter.feed(text)

    def on_line_end(self, stream: str) -> None:
        """Hear that the last update of a stream was not redrawn."""
        self.publisher.log.end_line(stream)

    def watch(self, process: SimulatorProcess, *, started: float) -> Ended:
        """Wait for the end, and bring it about when it is time; `started` is monotonic.

        Raises LeaseLost or WorkerStops.
        """
        self.started = started
        duties = [self.publish, self.look_for_cancel, self.extend_budget]
        # The process is gone before the attendant is waited for, which may hang.
        with Attendant(duties, name=f"attendant-{self.job.pk}"), contextlib.closing(process):
            while (ended := process.wait(self._next_look())) is None:
                self.lease.require()
                shutdown.stop.require_time()
                if ended := self._stop_when_due(process):
                    break
        self.started = None
        self.ran_before += ended.wall_seconds
        self.course.advance()
        return ended

    def _next_look(self) -> float:
        """Return in how many seconds to look again: soon, and no later than what may be spent ends."""
        return min(WATCHED_EVERY_SECONDS, max(0.0, self.budget.seconds - self.ran_seconds))

    def due(self) -> str | None:
        """Return why the attempt must stop: it is cancelled or has used up what it may; None when it need not."""
        if self.lease.cancelled.is_set():
            return verdict.CANCELLED
        if self.ran_seconds >= self.budget.seconds:
            return verdict.CEILING if self.budget.is_whole else verdict.CREDITS
        return None

    def _stop_when_due(self, process: SimulatorProcess) -> Ended | None:
        """Stop a process when it is due; None when it may run on."""
        reason = self.due()
        if reason is None:
            return None
        # Who pays for less than a second gets no second for a report either.
        cap_grace = min(CAP_GRACE_SECONDS, self.budget.seconds)
        grace = CANCEL_GRACE_SECONDS if reason == verdict.CANCELLED else cap_grace
        ended = process.stop(reason, grace_seconds=grace)
        if ended is None:
            raise RuntimeError("the simulator could not be stopped")
        return ended

    def publish(self) -> None:
        """Show how far the job is."""
        stage, percent = self.course.stage, self.course.meter.percent
        shown = StageProgress(current=stage.number, total=stage.count, label=stage.label, percent=percent)
        self.publisher.publish(Progress(percent=self.course.advance(), stage=shown))

    def look_for_cancel(self) -> None:
        """Look into the database when Redis hints at a cancel."""
        if time.monotonic() >= self.next_hint_at:
            self.next_hint_at = time.monotonic() + HINTS_EVERY_SECONDS
            if cancellation.is_hinted(self.job):
                self.lease.look_for_cancel()

    def extend_budget(self) -> None:
        """Hold more credits when what is held runs short."""
        self.budget.extend_when_due(ran_seconds=self.ran_seconds)


class Attendant:
    """A thread that does some duties again and again until the block it guards is left."""

    def __init__(self, duties: Sequence[Callable[[], None]], *, name: str) -> None:
        self.duties = duties
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._attend, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _attend(self) -> None:
        try:
            while not self._done.wait(ATTENDED_EVERY_SECONDS):
                for duty in self.duties:
                    self._try(duty)
        finally:
            connection.close()

    def _try(self, duty: Callable[[], None]) -> None:
        """Do a duty; one that fails is done again at its next turn."""
        try:
            duty()
        except Exception:
            logger.exception("%s: a duty failed and is tried again", self._thread.name)
            connection.close()
