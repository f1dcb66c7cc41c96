"""Shutdown of a worker: it claims no more jobs, and later returns the running ones to the queue."""

import math
import threading
import time

from django.conf import settings


class Stop:
    """Whether and when (monotonic seconds) this process was asked to stop."""

    def __init__(self) -> None:
        self.requested_at: float | None = None
        self.at_once = False
        self._requested = threading.Event()

    def request(self, *, at_once: bool = False) -> None:
        """Record that the worker was asked to stop.

        With `at_once`, running jobs return to the queue at once instead of after `STOP_SECONDS`.
        """
        self.at_once = self.at_once or at_once
        if self.requested_at is None:
            self.requested_at = time.monotonic()
            self._requested.set()

    @property
    def is_requested(self) -> bool:
        """Return whether the worker must not claim more jobs."""
        return self.requested_at is not None

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until a stop is requested."""
        self._requested.wait(seconds)

    @property
    def seconds_left(self) -> float:
        """Return how much longer running jobs may continue: for `STOP_SECONDS` after the request."""
        if self.requested_at is None:
            return math.inf
        return 0.0 if self.at_once else self.requested_at + settings.STOP_SECONDS - time.monotonic()

    def has_time(self) -> bool:
        """Return whether running jobs may continue."""
        return self.seconds_left > 0


# Of this process.
stop = Stop()
