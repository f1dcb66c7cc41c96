"""Sizes of shards, and how well slots share the work."""

import heapq
import random
from itertools import islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobs.execution.shard_plan import (
    DECREASING_ROUNDS,
    MAX_SHARD_SECONDS,
    MAX_SHARDS,
    MIN_SHARD_SECONDS,
    shard_sizes,
)

PROFILESETS = 1_000
SECONDS_EACH = 0.3
SHARD_COST = 0.15
SLOTS = (2, 4, 8, 16, 32)


def makespan(sizes: list[int], seconds: list[float], *, slots: int, slowest: float = 1.0) -> float:
    """Return when the last shard ends if each free slot takes the next one. The first slot may be slower."""
    left = iter(seconds)
    free = [(0.0, slot) for slot in range(slots)]
    for size in sizes:
        at, slot = heapq.heappop(free)
        factor = slowest if slot == 0 else 1.0
        heapq.heappush(free, (at + factor * (SHARD_COST + sum(islice(left, size))), slot))
    return max(at for at, _ in free)


def efficiency(slots: int, *, variation: float = 0.0, estimate: float | None = SECONDS_EACH) -> float:
    """Return T1 / (n * Tn) in the worst of ten draws. Times vary by up to the share `variation`."""
    results = []
    for seed in range(10):
        draw = random.Random(seed)  # noqa: S311 - repeatable, not secret
        seconds = [SECONDS_EACH * draw.uniform(1 - variation, 1 + variation) for _ in range(PROFILESETS)]
        sizes = shard_sizes(PROFILESETS, slots=slots, seconds_each=estimate)
        results.append(sum(seconds) / (slots * makespan(sizes, seconds, slots=slots)))
    return min(results)


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("variation", [0.0, 0.3])
def test_slots_share_the_work_evenly(slots: int, variation: float) -> None:
    assert efficiency(slots, variation=variation) >= (0.9 if slots <= 16 else 0.82)


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("variation", [0.0, 0.3])
@pytest.mark.parametrize("estimate", [SECONDS_EACH / 3, SECONDS_EACH * 3, None])
def test_a_wrong_estimate_costs_little(slots: int, variation: float, estimate: float | None) -> None:
    assert efficiency(slots, variation=variation, estimate=estimate) >= 0.75


@pytest.mark.parametrize("slots", SLOTS)
def test_a_slow_machine_delays_the_end_little(slots: int) -> None:
    sizes = shard_sizes(PROFILESETS, slots=slots, seconds_each=SECONDS_EACH)
    seconds = [SECONDS_EACH] * PROFILESETS
    ideal = PROFILESETS * SECONDS_EACH / (slots - 0.5)
    assert makespan(sizes, seconds, slots=slots, slowest=2.0) <= 1.3 * ideal


@given(
    st.integers(1, 10_000),
    st.integers(1, 256),
    st.none() | st.floats(0, 1e6) | st.sampled_from([0.0, 1e-300, float("inf")]),
)
def test_each_profileset_is_in_one_shard(count: int, slots: int, seconds_each: float | None) -> None:
    sizes = shard_sizes(count, slots=slots, seconds_each=seconds_each)
    assert sum(sizes) == count
    assert min(sizes) >= 1
    assert len(sizes) <= MAX_SHARDS + (DECREASING_ROUNDS + 1) * slots
    assert sizes == sorted(sizes, reverse=True)


@given(st.integers(1, 10_000), st.integers(1, 256), st.floats(0.001, 100))
def test_shards_are_long_enough(count: int, slots: int, seconds_each: float) -> None:
    sizes = shard_sizes(count, slots=slots, seconds_each=seconds_each)
    assert len(sizes) == 1 or min(sizes) * seconds_each >= MIN_SHARD_SECONDS


@given(st.integers(1, MAX_SHARDS), st.integers(1, 256), st.floats(0.001, 100))
@example(813, 1, 2.0)
def test_a_killed_process_loses_seconds(count: int, slots: int, seconds_each: float) -> None:
    sizes = shard_sizes(count, slots=slots, seconds_each=seconds_each)
    assert sizes[0] == 1 or sizes[0] * seconds_each <= MAX_SHARD_SECONDS


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("estimate", [SECONDS_EACH, None])
def test_more_shards_cost_little(slots: int, estimate: float | None) -> None:
    sizes = shard_sizes(10 * PROFILESETS, slots=slots, seconds_each=estimate)
    seconds = [SECONDS_EACH] * 10 * PROFILESETS
    assert sum(seconds) / (slots * makespan(sizes, seconds, slots=slots)) >= 0.95


@pytest.mark.parametrize(
    ("count", "slots", "seconds_each", "sizes"),
    [
        (10, 4, 0.1, [10]),
        (40, 4, 0.1, [20, 20]),
        (3, 8, 60.0, [1, 1, 1]),
        (9, 2, 60.0, [1] * 9),
        (60, 2, 0.5, [11, 11, 8, 8, 6, 6, 5, 5]),
        (60, 2, 2.0, [7] * 6 + [4, 3, 2, 2, 2, 2, 2, 1]),
        (7, 1, 60.0, [1] * 7),
    ],
)
def test_large_shards_come_first(count: int, slots: int, seconds_each: float, sizes: list[int]) -> None:
    assert shard_sizes(count, slots=slots, seconds_each=seconds_each) == sizes
