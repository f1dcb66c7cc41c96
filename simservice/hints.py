"""The connection to Redis, for what may be lost: progress, presence, counters."""

from functools import cache

from django.conf import settings
from redis import Redis


@cache
def redis() -> "Redis":
    """Return the process's client: thread-safe, pooled, with timeouts that keep a request short."""
    return Redis.from_url(settings.REDIS_URL, decode_responses=True, socket_timeout=2, socket_connect_timeout=2)
