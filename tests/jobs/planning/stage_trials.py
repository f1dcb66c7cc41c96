"""Trials of multistage culling on random reports: how often the true best is culled, and at what cost."""

import random
from dataclasses import dataclass

from jobs.planning.multistage import Stage, beaten, one_run, plan, pooled, replicates, widening
from simc.profiles.analysis import Analysis, analyse
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules
from simc.reports import Profileset, Statistics

CANDIDATES = 200
# Distance of the worst and of the second best, in percent of the best.
SPREAD, CLOSEST = 8.0, 0.05
BEST_MEAN = 100_000.0
# Standard deviation of single fights, in percent of the mean.
FIGHT_PERCENT = 8.0
MIN_ITERATIONS = 100
BOUNDS = Bounds(iterations=250_000, target_error=0.01)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The number of trials that lost the true best, and the simulated share of a single pass."""

    trials: int
    lost: int
    iterations: int
    single_pass_iterations: int

    @property
    def share_of_single_pass(self) -> float:
        return self.iterations / self.single_pass_iterations


def profile(candidates: int) -> Analysis:
    """Return the analysis of a profile that sets no precision."""
    sets = "\n".join(f"profileset.s{number}+=level=1" for number in range(candidates))
    return analyse(f"mage=A\n{sets}", rules=Rules(), bounds=BOUNDS)


def _true_means(draw: random.Random, *, candidates: int) -> dict[str, float]:
    """Draw the candidates' means: the best, its closest rival, and the others behind that."""
    distances = [0.0, CLOSEST, SPREAD, *(draw.uniform(CLOSEST, SPREAD) for _ in range(candidates - 3))]
    return {f"s{number}": BEST_MEAN * (1 - percent / 100) for number, percent in enumerate(distances)}


def _iterations_for(target_error: float) -> int:
    """Return the number of iterations that reach a target error, in percent of the mean."""
    return max(MIN_ITERATIONS, round((1.96 * FIGHT_PERCENT / target_error) ** 2))


def simulated(name: str, mean: float, stage: Stage, draw: random.Random, *, offset: float) -> Profileset:
    """Draw the result of one run; its seed shifts the mean by about `offset` reported errors."""
    assert stage.target_error is not None
    stddev = mean * FIGHT_PERCENT / 100
    error = stddev / _iterations_for(stage.target_error) ** 0.5
    statistics = Statistics(
        mean=draw.gauss(draw.gauss(mean, error), offset * error),
        mean_stddev=error,
        stddev=stddev,
        min=mean / 2,
        max=mean * 2,
    )
    return Profileset(name=name, statistics=statistics, stage=stage.number)


def run(*, trials: int, seed: int, candidates: int = CANDIDATES, offset: float = 0.0) -> Outcome:
    """Run the stages on new random candidates in each trial; the baseline is part of each stage.

    The seed of each run shifts its mean, with a standard deviation of `offset` reported errors.
    """
    draw = random.Random(seed)  # noqa: S311 - repeatable, not secret
    analysis = profile(candidates)
    funnel = plan(analysis, wanted=True, bounds=BOUNDS).stages
    last = funnel[-1].target_error or 0.0
    lost = iterations = 0
    for _ in range(trials):
        means, culled = _true_means(draw, candidates=candidates), set[str]()
        for stage in funnel:
            twice = replicates(stage, analysis, culled=culled)
            single_run = one_run(stage, replicated=bool(twice))
            names = [name for name in means if name not in culled]
            raw = [simulated(name, means[name], single_run, draw, offset=offset) for name in names]
            raw += [
                simulated(twice[name], means[name], single_run, draw, offset=offset)
                for name in names
                if name in twice
            ]
            iterations += (1 + len(raw)) * _iterations_for(single_run.target_error or 0.0)
            if not stage.is_last:
                culled |= beaten(pooled(raw, twice), widening=widening(raw, twice))
        lost += "s0" in culled
    single = trials * (1 + candidates) * _iterations_for(last)
    return Outcome(trials=trials, lost=lost, iterations=iterations, single_pass_iterations=single)
