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
def redis() -> Redis:
    """Return this process's client: thread-safe, with a connection pool and short timeouts."""
    return Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
    )


outage = Outage(
    "Redis",
    consequence="rate limits and progress are not available",
    recovery="rate limits and progress are available",
    probe_seconds=TIMEOUT_SECONDS,
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
