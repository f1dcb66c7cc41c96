"""Outages of servers, as one process sees them."""

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class Outage:
    """The state of a server for this process: whether it responds, and when to retry if it does not.

    `consequence` is logged with the first failure, and `recovery` with the first success after it. During an
    outage, only one thread probes the server, about once a second. A server that hangs therefore costs an
    occasional timeout of `probe_seconds`, not one for every request.
    """

    def __init__(self, server: str, *, consequence: str, recovery: str, probe_seconds: float) -> None:
        self._server, self._consequence, self._recovery = server, consequence, recovery
        self._probe_seconds = probe_seconds
        # Called with each failed command
        self.on_failure: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        # Monotonic time; None while the server responds.
        self._retry_at: float | None = None

    def may_try(self) -> bool:
        """Return whether to send a command. During an outage, that is True for the one thread that probes."""
        if self._retry_at is None:
            return True
        with self._lock:
            now = time.monotonic()
            if self._retry_at is not None and now < self._retry_at:
                return False
            self._retry_at = now + self._probe_seconds + RETRY_SECONDS
            return True

    def is_known(self) -> bool:
        """Return whether the server failed, and no command has succeeded since."""
        return self._retry_at is not None

    def record_failure(self, error: Exception) -> None:
        """Note a failed command. The first one of an outage is logged."""
        self.on_failure()
        with self._lock:
            is_first = self._retry_at is None
            self._retry_at = time.monotonic() + RETRY_SECONDS
        if is_first:
            logger.warning("%s failed; %s: %s", self._server, self._consequence, error)

    def record_success(self) -> None:
        """End the outage, if there is one, and log it."""
        if self._retry_at is None:
            return
        with self._lock:
            has_ended, self._retry_at = self._retry_at is not None, None
        if has_ended:
            logger.warning("%s works again; %s", self._server, self._recovery)
