"""The lease of a running shard, renewed by a thread while its simulator runs, and the time that it may use."""

import logging
import threading
import time

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from jobs.enums import StopReason
from jobs.execution.lease import LeaseLost
from jobs.execution.periodic_thread import PeriodicThread
from jobs.execution.simulation import CAP_GRACE_SECONDS
from jobs.lifecycle import cancellation, shard_moves
from jobs.lifecycle.shard_moves import ClaimedShard, ShardRenewal
from jobs.models import Job

logger = logging.getLogger(__name__)

HINT_SECONDS = 1.0
# With less of its allowance left, a shard asks for more every half second.
SHORT_SECONDS = 3.0


class ShardLease(PeriodicThread):
    """Renews a shard's lease every `HEARTBEAT_SECONDS` until the `with` block ends.

    Each renewal extends the allowance so that at least `slice_ms` are left, if the stage has the funds. The process
    stops by itself when its allowance ends, so a stage never uses more time than it is funded for.
    """

    def __init__(self, job: Job, shard: ClaimedShard, *, slice_ms: int) -> None:
        name = f"shard-{job.pk}-{shard.number}"
        super().__init__(self.renew, seconds=settings.HEARTBEAT_SECONDS, name=name)
        self.job, self.shard, self.slice_ms = job, shard, slice_ms
        self.lost = threading.Event()
        self.allowance_ms = shard.allowance_ms
        # The allowance at whose end the process was stopped; 0 if it was not.
        self.used_up_ms = 0
        # The lease's own thread and the process's thread both renew the lease.
        self.renewing = threading.Lock()
        # Why the process must stop: a cancellation, or the conductor's reason.
        self.stop_request: StopReason | None = None
        # By the monotonic clock; None before the simulator runs.
        self.started: float | None = None
        self._expires_at = time.monotonic() + settings.LEASE_SECONDS
        self._next_hint_at = 0.0

    @property
    def ran_ms(self) -> int:
        """Return how long the simulator has run."""
        return 0 if self.started is None else round(1000 * (time.monotonic() - self.started))

    @property
    def seconds_left(self) -> float:
        """Return how much longer the simulator may run."""
        return (self.allowance_ms - self.ran_ms) / 1000

    @property
    def cap_grace_seconds(self) -> float:
        """Return how long the simulator may take to write its report after its allowance is used up."""
        return min(CAP_GRACE_SECONDS, self.allowance_ms / 1000)

    def stop_reason(self) -> StopReason | None:
        """Return why the process must stop now: a request, or the end of its allowance; None if it may continue."""
        if self.stop_request is not None:
            return self.stop_request
        if self.seconds_left > 0:
            return None
        self.used_up_ms = self.allowance_ms
        return StopReason.CEILING

    def has_more_time(self) -> bool:
        """Return whether the stage has time for a shard that was stopped at the end of its allowance.

        Raises LeaseLost or a database error.
        """
        renewal = shard_moves.renew(self.shard, wanted_ms=0)
        if renewal is None:
            raise LeaseLost(self.job.pk)
        return renewal.free_ms > 0 or renewal.allowance_ms > self.used_up_ms

    def require(self) -> None:
        """Raise LeaseLost if the shard belongs to another try, or its stage is void."""
        if self.lost.is_set():
            raise LeaseLost(self.job.pk)

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than the lease is held. Raises LeaseLost."""
        self.lost.wait(seconds)
        self.require()

    def renew_early(self) -> None:
        """Renew the lease at once if the allowance is almost used up, or if Redis hints at a request to stop."""
        if self.stop_request is None and (self.seconds_left < SHORT_SECONDS or self._is_hinted()):
            self.renew()

    def _is_hinted(self) -> bool:
        if time.monotonic() < self._next_hint_at:
            return False
        self._next_hint_at = time.monotonic() + HINT_SECONDS
        return cancellation.is_hinted(self.job)

    def renew(self) -> None:
        """Renew the lease once."""
        with self.renewing:
            if not self.lost.is_set():
                self._renew()

    def _renew(self) -> None:
        asked_at = time.monotonic()
        try:
            renewal = shard_moves.renew(self.shard, wanted_ms=self._wanted_ms())
        except DatabaseError:
            logger.warning("%s: the lease was not renewed: the database is unavailable", self)
            # A dead connection stays dead; the next renewal opens a new one.
            connection.close()
            if time.monotonic() > self._expires_at:
                self.lost.set()
            return
        if renewal is None:
            self.lost.set()
            return
        self._expires_at = asked_at + settings.LEASE_SECONDS
        self._take(renewal)

    def _wanted_ms(self) -> int:
        return max(0, self.ran_ms + self.slice_ms - self.allowance_ms)

    def _take(self, renewal: ShardRenewal) -> None:
        self.allowance_ms = renewal.allowance_ms
        if renewal.is_cancelled:
            self.stop_request = StopReason.CANCELLED
        elif renewal.stop_reason:
            self.stop_request = StopReason(renewal.stop_reason)

    def __str__(self) -> str:
        return f"job {self.job.pk} attempt {self.job.attempt} shard {self.shard.number}"
