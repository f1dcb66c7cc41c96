"""Waiting for what other threads and processes do."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
# Far longer than anything takes on a busy machine.
PATIENCE_SECONDS = 60.0


def wait_until(condition: Callable[[], T], *, seconds: float = PATIENCE_SECONDS) -> T:
    """Wait until a condition returns a true value, and return that value. Raises AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)
    return found
