"""A limit on the rate of requests in a loop, whatever the service responds."""

import time

PER_SECOND = 1.0
# Requests that can follow each other without a pause, for example if a job changes often at its start
BURST = 5.0


class Pace:
    """Allows one request a second on average, after a short burst."""

    def __init__(self) -> None:
        self._left = BURST
        self._at = time.monotonic()

    def delay(self) -> float:
        """Count a request, and return how many seconds to wait before it."""
        now = time.monotonic()
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND) - 1
        self._at = now
        return max(0.0, -self._left / PER_SECOND)
