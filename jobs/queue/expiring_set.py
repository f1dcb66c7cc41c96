"""A set whose members expire after some seconds: what this process leaves to other machines for a while."""

import threading
import time
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class ExpiringSet(Generic[Key]):
    """Keys that expire after some seconds. Threads can share it."""

    def __init__(self, *, seconds: float) -> None:
        self.seconds = seconds
        self._until: dict[Key, float] = {}
        self._lock = threading.Lock()

    def add(self, key: Key) -> None:
        """Add a key, or let it expire later."""
        with self._lock:
            self._until[key] = time.monotonic() + self.seconds

    def current(self) -> set[Key]:
        """Return the keys that have not expired."""
        with self._lock:
            now = time.monotonic()
            self._until = {key: until for key, until in self._until.items() if until > now}
            return set(self._until)
