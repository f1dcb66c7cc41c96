"""Watching one simulator process: its progress, its deadline, the job's lease and its cancel."""

import logging
import threading
import time
from types import TracebackType
from typing import Self

from django.db import connection

from jobs import cancellation, verdict
from jobs.lease import Lease
from jobs.models import Job
from jobs.progress import Progress, Publisher, Stage
from jobs.simulator.process import Ended, SimulatorProcess
from jobs.simulator.progress import ProgressMeter

logger = logging.getLogger(__name__)

WATCHED_EVERY_SECONDS = 0.25
ATTENDED_EVERY_SECONDS = 0.5
HINTS_EVERY_SECONDS = 1.0
# A cap may be passed by two seconds at most, the watcher's own delay among them.
CAP_GRACE_SECONDS = 1.5
CANCEL_GRACE_SECONDS = 3.0


class Attendant:
    """A thread beside a watched process for whatever may be slow: what hangs there delays no deadline."""

    def __init__(self, job: Job, lease: Lease, *, publisher: Publisher, meter: ProgressMeter) -> None:
        self.job = job
        self.lease = lease
        self.publisher = publisher
        self.meter = meter
        self.next_hint_at = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._attend, name=f"attendant-{job.pk}", daemon=True)

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
                self._attend_once()
        finally:
            connection.close()

    def _attend_once(self) -> None:
        """Do each duty; one that fails is tried again at its next turn."""
        for duty in (self.publish, self.look_for_cancel):
            try:
                duty()
            except Exception:
                logger.exception("job %s: %s failed and is tried again", self.job.pk, duty.__name__)
                connection.close()

    def publish(self) -> None:
        """Show how far the job is."""
        percent = self.meter.percent
        stage = Stage(current=1, total=1, label="initial", percent=percent)
        self.publisher.publish(Progress(percent=percent, stage=stage))

    def look_for_cancel(self) -> None:
        """Look into the database when Redis hints at a cancel."""
        if time.monotonic() >= self.next_hint_at:
            self.next_hint_at = time.monotonic() + HINTS_EVERY_SECONDS
            if cancellation.is_hinted(self.job):
                self.lease.look_for_cancel()


class Watcher:
    """Follows one simulator process to its end, or brings that about."""

    def __init__(self, job: Job, lease: Lease, *, phases: int) -> None:
        self.job = job
        self.lease = lease
        self.meter = ProgressMeter(expected_phases=phases)
        self.publisher = Publisher(job)

    def on_line(self, stream: str, text: str) -> None:
        """Take one update of the simulator's output."""
        self.publisher.log.update(stream, text)
        if stream == "stdout":
            self.meter.feed(text)

    def on_line_end(self, stream: str) -> None:
        """Hear that the last update of a stream was not redrawn."""
        self.publisher.log.end_line(stream)

    def watch(self, process: SimulatorProcess, *, started: float) -> Ended:
        """Wait for the end, and bring it about when it is time; `started` is monotonic. Raises LeaseLost."""
        with Attendant(self.job, self.lease, publisher=self.publisher, meter=self.meter):
            while (ended := process.wait(WATCHED_EVERY_SECONDS)) is None:
                self.lease.require()
                if ended := self._stop_when_due(process, ran=time.monotonic() - started):
                    break
        return ended

    def _stop_when_due(self, process: SimulatorProcess, *, ran: float) -> Ended | None:
        """Stop a process that is cancelled or has run for `ran` seconds, its most; None when it may run on."""
        if self.lease.cancelled.is_set():
            reason, grace = verdict.CANCELLED, CANCEL_GRACE_SECONDS
        elif ran >= self.job.ceiling_runtime_seconds:
            reason, grace = verdict.CEILING, CAP_GRACE_SECONDS
        else:
            return None
        ended = process.stop(reason, grace_seconds=grace)
        if ended is None:
            raise RuntimeError("the simulator could not be stopped")
        return ended
