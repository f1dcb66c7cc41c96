"""Django's cache in Redis, which behaves like an empty cache while Redis does not respond."""

import json
from typing import Any

from django.core.cache.backends.redis import RedisCache

from simservice.redis.client import TIMEOUT_SECONDS, best_effort


class JsonSerializer:
    """Stores values as JSON, because with Django's pickle anyone who can write to Redis could run code."""

    def dumps(self, value: Any) -> str:
        """Serialize a value for Redis. Raises TypeError for a value that JSON cannot express."""
        return json.dumps(value)

    def loads(self, data: bytes) -> Any:
        """Parse a stored value. Raises ValueError or RecursionError for anything but JSON."""
        return json.loads(data)


OPTIONS = {
    "socket_timeout": TIMEOUT_SECONDS,
    "socket_connect_timeout": TIMEOUT_SECONDS,
    "serializer": JsonSerializer,
}


class BestEffortCache(RedisCache):
    """A cache that never raises RedisError: during an outage it is empty and drops what it stores."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, {**params, "OPTIONS": OPTIONS})

    def add(self, key: Any, value: Any, timeout: Any = None, version: int | None = None) -> bool:
        """Store a value unless the key exists. Return True during an outage too, so that a lock never blocks."""
        return bool(
            best_effort(lambda: super(BestEffortCache, self).add(key, value, timeout, version), default=True)
        )

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        """Return a value, or `default` if it is missing or not JSON."""
        try:
            return best_effort(lambda: super(BestEffortCache, self).get(key, default, version), default=default)
        except (ValueError, RecursionError):
            return default

    def set(self, key: Any, value: Any, timeout: Any = None, version: int | None = None) -> None:
        """Store a value. During an outage, do nothing."""
        best_effort(lambda: super(BestEffortCache, self).set(key, value, timeout, version), default=None)

    def delete(self, key: Any, version: int | None = None) -> bool:
        """Delete a value. Return whether there was one."""
        return bool(best_effort(lambda: super(BestEffortCache, self).delete(key, version), default=False))
