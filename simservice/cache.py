"""Django's cache in Redis, for what may be lost: asked through the same door as every other hint."""

from typing import Any

from django.core.cache.backends.redis import RedisCache

from simservice.hints import TIMEOUT_SECONDS, ask

TIMEOUTS = {"socket_timeout": TIMEOUT_SECONDS, "socket_connect_timeout": TIMEOUT_SECONDS}


class HintCache(RedisCache):
    """A cache that is empty, and takes everything, while Redis does not answer."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, {**params, "OPTIONS": TIMEOUTS})

    def add(self, key: Any, value: Any, timeout: Any = None, version: int | None = None) -> bool:
        """Store a value unless there is one; True also when nobody can tell, so that a lock never blocks."""
        return bool(ask(lambda: super(HintCache, self).add(key, value, timeout, version), otherwise=True))

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        """Return a value, or `default`."""
        return ask(lambda: super(HintCache, self).get(key, default, version), otherwise=default)

    def set(self, key: Any, value: Any, timeout: Any = None, version: int | None = None) -> None:
        """Store a value if that can be done."""
        ask(lambda: super(HintCache, self).set(key, value, timeout, version), otherwise=None)

    def delete(self, key: Any, version: int | None = None) -> bool:
        """Forget a value; tell whether there was one."""
        return bool(ask(lambda: super(HintCache, self).delete(key, version), otherwise=False))
