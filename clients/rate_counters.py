"""Counters of rate limits in Redis: those of `limits`, counted and read in one request."""

import math
from typing import Any, NamedTuple

from limits.storage import RedisStorage

# Both parts are scripts of `limits`. The second one reads the counters after the first one has counted.
COUNT_AND_READ = f"""
local function count() {RedisStorage.SCRIPT_ACQUIRE_SLIDING_WINDOW.decode()} end
local function read(ARGV) {RedisStorage.SCRIPT_SLIDING_WINDOW.decode()} end
local is_allowed = count()
return {{is_allowed, unpack(read({{ARGV[2]}}))}}
"""


class Counters(NamedTuple):
    """The counts of the previous and the current period, each with the seconds until it expires."""

    previous: int
    previous_left: float
    current: int
    current_left: float

    def used(self, period: int) -> int:
        """Return the count of the last `period` seconds, in which the previous count decreases linearly."""
        return math.floor(self.previous * self.previous_left / period) + self.current

    def reset_in(self, period: int) -> float:
        """Return the seconds until the limit allows one more, 0 if nothing is counted."""
        waits = [self.previous_left % (period / self.previous)] if self.previous else []
        if self.current:
            # It expires after two periods. In `limits`, a count made just now would allow one more at once.
            waits.append(max(self.current_left - period, 0))
        return min(waits, default=0)


class CountingStorage(RedisStorage):
    """The storage of `limits` in Redis, with one more script."""

    # `limits` does not choose this class by a URL.
    STORAGE_SCHEME = None  # type: ignore[assignment]

    def initialize_storage(self, uri: str) -> None:
        super().initialize_storage(uri)
        self.count_and_read_script = self.get_connection().register_script(COUNT_AND_READ.encode())

    def count_and_read(self, key: str, *, limit: int, period: int) -> tuple[bool, Counters]:
        """Count 1 if the limit allows it; return whether it does, and the counters. One request to Redis."""
        keys = [self._previous_window_key(key), self._current_window_key(key)]
        reply: Any = self.count_and_read_script([self.prefixed_key(each) for each in keys], [limit, period, 1])
        previous, previous_left, current, current_left = (max(int(each or 0), 0) for each in reply[1:])
        return bool(reply[0]), Counters(previous, previous_left / 1000, current, current_left / 1000)
