"""How a worker stops: it claims nothing more, and what still runs after a while it gives back."""

import time

from django.conf import settings


class WorkerStops(Exception):
    """The attempt is over because its worker stops; the job goes back into the queue."""


class Stop:
    """Whether this process was asked to stop, and since when (monotonic seconds)."""

    def __init__(self) -> None:
        self.asked_at: float | None = None

    def ask(self) -> None:
        """Note that the worker was asked to stop."""
        if self.asked_at is None:
            self.asked_at = time.monotonic()

    @property
    def is_asked(self) -> bool:
        """Tell whether to claim nothing more."""
        return self.asked_at is not None

    def require_time(self) -> None:
        """Raise WorkerStops when running jobs have had the time that `STOP_SECONDS` allows them."""
        if self.asked_at is not None and time.monotonic() - self.asked_at >= settings.STOP_SECONDS:
            raise WorkerStops


stop = Stop()
"""The process's own."""
