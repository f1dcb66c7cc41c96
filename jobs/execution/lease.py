"""Holding a claimed job: a thread that renews the lease while the attempt works."""

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections, connection

from jobs import lifecycle
from jobs.models import Job

logger = logging.getLogger(__name__)


T = TypeVar("T")
RETRIED_EVERY_SECONDS = 0.5


class LeaseLost(Exception):
    """The job is no longer this attempt's; whatever it did is void."""


class Lease:
    """Renews a job's lease every few seconds until the block it guards is left.

    `lost` is set when the job was taken away, or when it could not be renewed for as long as a lease lasts;
    `cancelled` when a renewal finds that the job's cancel was asked for.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.lost = threading.Event()
        self.cancelled = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease-{job.pk}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def require(self) -> None:
        """Raise LeaseLost when the job was taken away."""
        if self.lost.is_set():
            raise LeaseLost(self.job.pk)

    def look_for_cancel(self) -> None:
        """Set `cancelled` when the database says so. Raises a database error."""
        if not self.cancelled.is_set() and lifecycle.cancel_requested(self.job):
            self.cancelled.set()

    def insist(self, write: Callable[[], T]) -> T:
        """Do a write again until the database takes it; it must be safe to repeat. Raises LeaseLost.

        A database that restarts while a simulator runs costs a moment, not the run.
        """
        while True:
            close_old_connections()
            try:
                return write()
            except DatabaseError:
                logger.warning("job %s waits for the database", self.job.pk)
                connection.close()
            if self.lost.wait(RETRIED_EVERY_SECONDS):
                raise LeaseLost(self.job.pk)

    def _keep(self) -> None:
        expires = time.monotonic() + settings.LEASE_SECONDS
        try:
            while not self.lost.is_set() and not self._done.wait(settings.HEARTBEAT_SECONDS):
                expires = self._renew(expires)
        finally:
            connection.close()

    def _renew(self, expires: float) -> float:
        """Renew once and return when the lease now ends, by the monotonic clock."""
        asked = time.monotonic()
        try:
            if lifecycle.renew_lease(self.job):
                expires = asked + float(settings.LEASE_SECONDS)
                self.look_for_cancel()
            else:
                self.lost.set()
        except DatabaseError:
            logger.warning("the lease of job %s was not renewed: the database does not answer", self.job.pk)
            # A dead connection stays dead; the next renewal makes a new one.
            connection.close()
            if time.monotonic() > expires:
                self.lost.set()
        return expires
