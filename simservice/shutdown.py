"""Shutdown and drain of a worker: it claims no more jobs, and returns those to the queue that cannot end in time.

After a drain, which an operator requests for a machine, the worker claims jobs again.
"""

import math
import threading
import time

from django.conf import settings


class Stop:
    """Whether and when (monotonic seconds) this process was asked to stop, and since when it is drained."""

    def __init__(self) -> None:
        self.requested_at: float | None = None
        self.drained_at: float | None = None
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

    def set_drained(self, is_drained: bool) -> None:  # noqa: FBT001 - the only argument
        """Record whether the machine is drained. Running jobs have `STOP_SECONDS` from the first such call."""
        if not is_drained:
            self.drained_at = None
        elif self.drained_at is None:
            self.drained_at = time.monotonic()

    @property
    def is_requested(self) -> bool:
        """Return whether the worker was asked to stop, so that it must not claim more jobs."""
        return self.requested_at is not None

    @property
    def is_drained(self) -> bool:
        """Return whether the worker must not claim more jobs until the drain of its machine ends."""
        return self.drained_at is not None

    @property
    def began_at(self) -> float | None:
        """Return when running jobs were first asked to end, None if they were not."""
        return min((at for at in (self.requested_at, self.drained_at) if at is not None), default=None)

    @property
    def is_ending(self) -> bool:
        """Return whether running jobs were asked to end, by a stop or a drain."""
        return self.began_at is not None

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until a stop is requested."""
        self._requested.wait(seconds)

    @property
    def seconds_left(self) -> float:
        """Return how much longer running jobs may continue: for `STOP_SECONDS` after they were asked to end."""
        if self.at_once:
            return 0.0
        began_at = self.began_at
        return math.inf if began_at is None else began_at + settings.STOP_SECONDS - time.monotonic()

    def has_time(self) -> bool:
        """Return whether running jobs may continue."""
        return self.seconds_left > 0


# Of this process.
stop = Stop()
