"""Sizes of the benchmarks of the whole path."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Size:
    """Counts and seconds of one run. The sustained load ends when `jobs` or `seconds` is reached.

    `bare_seconds` is the time of the load without bubblewrap.
    """

    idle_seconds: float
    warm_up: int
    jobs: int
    seconds: float
    bare_seconds: float
    single_jobs: int
    bursts: int
    jobs_after_burst: int
    submissions: int


FULL = Size(
    idle_seconds=20,
    warm_up=200,
    jobs=10_000,
    seconds=340,
    bare_seconds=60,
    single_jobs=100,
    bursts=4,
    jobs_after_burst=25,
    submissions=2_000,
)
QUICK = Size(
    idle_seconds=6,
    warm_up=40,
    jobs=1_000,
    seconds=10,
    bare_seconds=6,
    single_jobs=20,
    bursts=1,
    jobs_after_burst=20,
    submissions=300,
)
