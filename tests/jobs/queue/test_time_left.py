"""The time that a running job still needs, from its own pace."""

import pytest

from jobs.execution.progress import ProgressEstimate
from jobs.planning.multistage import Stage

SINGLE = [Stage(number=1, count=1)]


class Clock:
    """A clock that the tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def estimate_of(clock: Clock, *, profilesets: int = 0) -> ProgressEstimate:
    estimate = ProgressEstimate(SINGLE, clock=clock)
    estimate.enter(SINGLE[0], profilesets=profilesets, replicates={})
    return estimate


def feed(estimate: ProgressEstimate, done: int, *, phase: int = 1, phases: int = 1) -> None:
    """Print that a phase has finished this many of 100 iterations."""
    label = "Profileset: a" if phase > 1 else "Baseline:"
    estimate.meter.feed(f"Generating {label} {phase}/{phases} [=>..] {done}/100 85.2")


def test_nothing_is_known_before_the_first_update(clock: Clock) -> None:
    estimate = estimate_of(clock)
    clock.now += 60
    assert estimate.seconds_left is None


@pytest.mark.parametrize(("seconds", "done"), [(1.9, 60), (30, 4)], ids=["too short", "too little"])
def test_a_short_observation_says_nothing(clock: Clock, seconds: float, done: int) -> None:
    estimate = estimate_of(clock)
    feed(estimate, 0)
    clock.now += seconds
    feed(estimate, done)
    assert estimate.seconds_left is None


def test_a_single_pass_continues_at_its_pace(clock: Clock) -> None:
    estimate = estimate_of(clock)
    clock.now += 7  # starting does not count
    feed(estimate, 10)
    clock.now += 10
    feed(estimate, 30)
    assert estimate.seconds_left == 35
    clock.now += 5
    assert estimate.seconds_left == 53, "a job that stalls takes longer"


def test_two_finished_runs_of_many_are_enough(clock: Clock) -> None:
    estimate = estimate_of(clock, profilesets=999)
    feed(estimate, 0, phases=1000)
    clock.now += 10
    feed(estimate, 0, phase=2, phases=1000)
    assert estimate.seconds_left is None
    clock.now += 10
    feed(estimate, 0, phase=3, phases=1000)
    assert estimate.seconds_left == pytest.approx(9980, abs=10)


def test_shards_share_one_pace(clock: Clock) -> None:
    estimate = estimate_of(clock, profilesets=99)
    estimate.meter.advance_to(1)
    clock.now += 10
    estimate.meter.advance_to(21)
    assert estimate.seconds_left == 40
