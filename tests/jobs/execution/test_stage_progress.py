"""Reported progress of jobs in stages, compared with their true progress on a simulated clock."""

import random
from collections.abc import Sequence
from functools import cache

import pytest

from jobs.execution.progress import ProgressEstimate
from jobs.planning.multistage import Stage
from jobs.planning.past_jobs import StageStatistics, statistics_of
from tests.jobs.execution.simulated_stages import Engine, SimulatedJob

pytestmark = pytest.mark.slow

ENGINES = {
    "quick": Engine(),
    "that prepares long": Engine(setup=0.3),
    "that starts slowly": Engine(startup=3.0, fight=0.002, setup=0.02),
}
TWO_STAGES, THREE_STAGES = "target_error=0.2", ""


def spread_out(count: int, percent: float) -> list[float]:
    """Return means from the best down to this many percent below it."""
    draw = random.Random(3)  # noqa: S311 - repeatable, not secret
    return [100_000 * (1 - percent * draw.random() / 100) for _ in range(count)]


def clear_winners() -> list[float]:
    """Return 64 means: two equal winners, the others at least 12 % behind."""
    means = [100_000.0, 100_000.0, *(0.88 * mean for mean in spread_out(62, 3))]
    random.Random(3).shuffle(means)  # noqa: S311 - repeatable, not secret
    return means


SHAPES = {
    "62 of 64 culled, two stages": (clear_winners(), TWO_STAGES),
    "62 of 64 culled, three stages": (clear_winners(), THREE_STAGES),
    "all equal, two stages": ([100_000.0] * 64, TWO_STAGES),
    "all equal, three stages": ([100_000.0] * 16, THREE_STAGES),
    "1,000 profilesets": (spread_out(1000, 40), TWO_STAGES),
    "20 profilesets": (spread_out(20, 5), THREE_STAGES),
}


@cache
def simulated(shape: str, engine: str, *, past: int = 0, seed: int = 1) -> SimulatedJob:
    """Run a job after this many jobs of the same shape."""
    before = [simulated(shape, engine, seed=seed + 1 + number) for number in range(past)]
    means, own = SHAPES[shape]
    return SimulatedJob(means, own, ENGINES[engine], statistics_of([job.past for job in before]), seed=seed)


def off_by(deviations: Sequence[float]) -> float:
    return max(map(abs, deviations))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_with_past_jobs_the_percent_is_within_ten_points(shape: str, engine: str) -> None:
    job = simulated(shape, engine, past=1)
    assert off_by(job.deviations) <= 10, job.deviations


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_job_is_within_twenty_points(shape: str, engine: str) -> None:
    job = simulated(shape, engine)
    assert off_by(job.deviations) <= 20, job.deviations


@pytest.mark.parametrize("shape", SHAPES)
def test_the_percent_never_falls_or_ends_early(shape: str) -> None:
    shown = [percent for _, percent in simulated(shape, "quick").observed]
    assert shown == sorted(shown)
    assert shown[-1] < 100


def test_one_outlier_changes_little() -> None:
    usual = [simulated("62 of 64 culled, two stages", "quick", seed=seed).past for seed in (2, 3)]
    outlier = simulated("all equal, two stages", "quick").past
    assert statistics_of([*usual, outlier]).share(1) == statistics_of(usual).share(1)


def test_a_single_pass_shows_the_progress_of_its_process() -> None:
    course = ProgressEstimate([Stage(number=1, count=1)], StageStatistics())
    course.enter(course.stages[0], profilesets=7, replicates={})
    course.meter.feed("Generating Baseline: 1/8 [=====>....] 50/100 99.0 1sec")
    assert course.advance() == course.meter.percent > 0


def test_scale_factors_and_plots_are_runs_of_the_last_stage() -> None:
    stages = [Stage(number=number, count=2, target_error=1.0, iterations=1000) for number in (1, 2)]
    course = ProgressEstimate(stages, StageStatistics(), additional_runs=27)
    course.enter(stages[0], profilesets=4, replicates={"a": "a~"})
    assert course.runs == 6
    course.enter(stages[1], profilesets=2, replicates={})
    assert course.runs == 30
    # The simulator's own count has them too.
    course.meter.feed("Generating Crit: 6/30 [==>.................] 50/100 85.2 12sec")
    assert course.meter.percent == pytest.approx(100 * 5.5 / 30, abs=0.1)
