"""The sizes of shards: how many profilesets each one contains.

Slots take shards in order whenever they are free. With large shards first and small ones last, all slots end at
about the same time even if profilesets and machines differ (factoring, a kind of guided self-scheduling).
"""

import math

# Shards for each slot. More would only add process starts, at 0.1 to 0.3 s each.
MAX_ROUNDS = 4
# A shorter shard would spend too much of its time on its start.
MIN_SHARD_SECONDS = 2.0
# A profileset's time if it is unknown.
ASSUMED_SECONDS = 1.0
# Less cannot be measured.
MIN_SECONDS = 1e-6


def shard_sizes(count: int, *, slots: int, seconds_each: float | None) -> list[int]:
    """Return how many of `count` profilesets each shard contains, in decreasing order.

    Both `count` and `slots` are at least 1; `seconds_each` is the expected time of one profileset, None if unknown.

    There are up to four rounds of one shard for each slot. Each shard has the smallest allowed size and a
    part of the rest, of which each round has twice as much as the next. With too little work for one round, there
    are fewer shards than slots, all equal.
    """
    smallest = _smallest(count, seconds_each)
    rounds = min(MAX_ROUNDS, count // (smallest * slots))
    if not rounds:
        return _evenly(count, count // smallest)
    rest = count - rounds * slots * smallest
    extra = [(rest << round_) // (2**rounds - 1) for round_ in reversed(range(rounds))]
    extra[0] += rest - sum(extra)
    sizes = [size for more in extra for size in _evenly(slots * smallest + more, slots)]
    return sorted(sizes, reverse=True)


def _smallest(count: int, seconds_each: float | None) -> int:
    """Return how many profilesets take at least `MIN_SHARD_SECONDS`, at most all."""
    seconds = ASSUMED_SECONDS if seconds_each is None else max(seconds_each, MIN_SECONDS)
    return min(count, max(1, math.ceil(MIN_SHARD_SECONDS / seconds)))


def _evenly(count: int, shards: int) -> list[int]:
    size, larger = divmod(count, shards)
    return [size + 1] * larger + [size] * (shards - larger)
