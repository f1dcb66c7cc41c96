"""The Redis client. Redis stores only what may be lost, such as progress, heartbeats and counters."""

from collections.abc import Callable
from functools import cache
from typing import TypeVar

from django.conf import settings
from redis import Redis
from redis.exceptions import DataError, RedisError

from simservice.outages import Outage

T = TypeVar("T")
TIMEOUT_SECONDS = 2.0


@cache
def redis() -> "Redis":
    """Return this process's client: thread-safe, with a connection pool and short timeouts."""
    return Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
    )


class RedisOutage(Outage):
    """An outage of Redis; its failures are counted."""

    def __init__(self, consequence: str, *, recovery: str) -> None:
        super().__init__("Redis", consequence=consequence, recovery=recovery, probe_seconds=TIMEOUT_SECONDS)

    def record_failure(self, error: Exception) -> None:
        """Note and count a failed command. The first one of an outage is logged."""
        # Imported here because it uses this module's client.
        from simservice.redis import shared_metrics

        shared_metrics.record(shared_metrics.REDIS_FAILURES.increments())
        super().record_failure(error)


outage = RedisOutage(
    "rate limits and progress are not available", recovery="rate limits and progress are available"
)


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
