"""The lease of a claimed job or shard, renewed by a thread while its simulator runs."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from jobs.enums import Renewal
from jobs.errors import GivesUp, JobPaused
from jobs.execution.periodic_thread import PeriodicThread
from jobs.lifecycle import job_moves
from jobs.models import Job

logger = logging.getLogger(__name__)

T = TypeVar("T")
RETRY_SECONDS = 0.5


class LeaseLost(GivesUp):
    """The job or shard no longer belongs to this attempt or try, whose results are void."""

    def __str__(self) -> str:
        return "it lost its lease"


class Lease(PeriodicThread):
    """Renews a lease every `HEARTBEAT_SECONDS` until the `with` block ends.

    `lost` is set if the job or shard no longer belongs to this slot, or if no renewal succeeded for as long as a
    lease lasts. `cancelled` and `paused` are set when a renewal finds that the job's cancellation or its pause was
    requested.
    """

    def __init__(self, job: Job, statement: Callable[[Job], Renewal] | None = None) -> None:
        """Create the lease of a job, or that of a shard, which another `statement` renews."""
        super().__init__(self.renew, seconds=settings.HEARTBEAT_SECONDS, name=f"lease-{job.pk}")
        self.job = job
        self.lost = threading.Event()
        self.cancelled = threading.Event()
        self.paused = threading.Event()
        self._statement = statement
        # The thread of the lease and that of a time limit both renew it.
        self._renewing = threading.Lock()
        self._expires_at = time.monotonic() + settings.LEASE_SECONDS

    def require(self) -> None:
        """Raise LeaseLost if the lease is lost."""
        if self.lost.is_set():
            raise LeaseLost

    def require_unpaused(self) -> None:
        """Raise JobPaused if the job's pause was requested. A cancellation comes first, because it ends the job."""
        if self.paused.is_set() and not self.cancelled.is_set():
            raise JobPaused

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than the lease is held. Raises LeaseLost."""
        self.lost.wait(seconds)
        self.require()

    def check_requests(self) -> None:
        """Set `cancelled` or `paused` if that was requested. Raises a database error."""
        if not self.cancelled.is_set():
            self._notice(job_moves.requests_of(self.job))

    def _notice(self, renewal: Renewal) -> None:
        if renewal is Renewal.CANCEL_REQUESTED:
            self.cancelled.set()
        elif renewal is Renewal.PAUSE_REQUESTED:
            self.paused.set()

    def retry(self, write: Callable[[], T]) -> T:
        """Retry a write until the database accepts it; it must be safe to repeat. Raises LeaseLost.

        If the database restarts while a simulator runs, the run is only delayed.
        """
        _close_old_connection()
        # The first failure can be caused by a lost connection, so a new connection is tried at once.
        seconds = 0.0
        while True:
            try:
                return write()
            except DatabaseError:
                logger.warning("job %s waits for the database", self.job.pk)
                connection.close()
            self.pause(seconds)
            seconds = RETRY_SECONDS

    def renew(self) -> None:
        """Renew the lease once."""
        with self._renewing:
            if not self.lost.is_set():
                self._renew()

    def _renew(self) -> None:
        asked_at = time.monotonic()
        try:
            renewal = (self._statement or job_moves.renew_lease)(self.job)
        except DatabaseError:
            logger.warning("job %s: the lease was not renewed: the database is unavailable", self.job.pk)
            # Django does not reopen a broken connection by itself.
            connection.close()
            if time.monotonic() > self._expires_at:
                self.lost.set()
            return
        if renewal is Renewal.LOST:
            self.lost.set()
            return
        self._expires_at = asked_at + settings.LEASE_SECONDS
        self._notice(renewal)


def _close_old_connection() -> None:
    """Close this thread's connection if it is too old. Makes no query, unlike Django's function."""
    if (
        connection.close_at is not None
        and time.monotonic() >= connection.close_at
        and not connection.in_atomic_block
    ):
        connection.close()
