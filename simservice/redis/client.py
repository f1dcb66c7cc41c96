"""The Redis client. Redis stores only what may be lost, such as progress, heartbeats and counters."""

import logging
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from django.conf import settings
from redis import Redis
from redis.exceptions import DataError, RedisError

logger = logging.getLogger(__name__)

T = TypeVar("T")
TIMEOUT_SECONDS = 2.0
RETRY_SECONDS = 1.0


@cache
def redis() -> "Redis":
    """Return this process's client: thread-safe, with a connection pool and short timeouts."""
    return Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
    )


class Outage:
    """The state of Redis for this process: whether it responds, and when to retry if it does not.

    `consequence` is logged with the first failure, and `recovery` with the first success after it. During an
    outage, only one thread probes Redis, about once a second. A Redis that hangs therefore costs an occasional
    timeout, not one for every request.
    """

    def __init__(self, consequence: str, *, recovery: str) -> None:
        self._consequence = consequence
        self._recovery = recovery
        self._lock = threading.Lock()
        # Monotonic time; None while Redis responds.
        self._retry_at: float | None = None

    def may_try(self) -> bool:
        """Return whether to send a command. During an outage, that is True for the one thread that probes."""
        if self._retry_at is None:
            return True
        with self._lock:
            now = time.monotonic()
            if self._retry_at is not None and now < self._retry_at:
                return False
            self._retry_at = now + TIMEOUT_SECONDS + RETRY_SECONDS
            return True

    def record_failure(self, error: Exception) -> None:
        """Count a failed command. The first one of an outage is logged."""
        # Imported here because it uses this module's client.
        from simservice.redis import shared_metrics

        shared_metrics.record(shared_metrics.REDIS_FAILURES.increments())
        with self._lock:
            is_first = self._retry_at is None
            self._retry_at = time.monotonic() + RETRY_SECONDS
        if is_first:
            logger.warning("Redis failed; %s: %s", self._consequence, error)

    def record_success(self) -> None:
        """End the outage, if there is one, and log it."""
        if self._retry_at is None:
            return
        with self._lock:
            has_ended, self._retry_at = self._retry_at is not None, None
        if has_ended:
            logger.warning("Redis works again; %s", self._recovery)


outage = Outage("rate limits and progress are not available", recovery="rate limits and progress are available")


def best_effort(command: Callable[[], T], *, default: T) -> T:
    """Run a Redis command. Return `default` if Redis does not respond or failed within the last second.

    Raises all other errors, DataError for an invalid argument included.
    """
    if not outage.may_try():
        return default
    try:
        result = command()
    except DataError:
        raise
    except RedisError as error:
        outage.record_failure(error)
        return default
    outage.record_success()
    return result
