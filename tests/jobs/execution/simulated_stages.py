"""A job in stages on a simulated clock, to compare reported and true progress."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.execution.progress import ProgressEstimate
from jobs.planning.multistage import Stage, beaten, one_run, plan, pooled, replicates, widening
from jobs.planning.past_jobs import StageStatistics
from simc.profiles.analysis import analyse
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules
from simc.reports import Profileset, Statistics

BOUNDS = Bounds(iterations=250_000, target_error=0.01)
SAMPLED_PERCENTS = (10, 25, 50, 75, 90)
SAMPLE_SECONDS = 0.5
BASELINE_MEAN = 90_000.0
SPREAD_PERCENT = 6.0


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Seconds that a simulator needs to start, to prepare a run, and for one fight."""

    startup: float = 0.5
    setup: float = 0.0
    fight: float = 0.0005


class SimulatedJob:
    """A finished job: `deviations` from the true percent, and `past` for `statistics_of`."""

    def __init__(
        self, means: Sequence[float], own: str, engine: Engine, funnels: StageStatistics, *, seed: int
    ) -> None:
        self.means = {f"s{number}": mean for number, mean in enumerate(means)}
        text = "mage=A\n" + "".join(f"profileset.{name}+=level=1\n" for name in self.means) + own
        self.analysis = analyse(text, rules=Rules(), bounds=BOUNDS)
        self.engine, self.draw = engine, random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.now = 0.0
        self.stages = plan(self.analysis, wanted=True, bounds=BOUNDS).stages
        self.course = ProgressEstimate(self.stages, funnels, clock=lambda: self.now)
        self.observed: list[tuple[float, float]] = [(0.0, 0.0)]
        self.past: tuple[list[Any], list[Any], list[int]] = ([], [], [])
        self._run()

    @property
    def deviations(self) -> list[float]:
        """Return the error of the percent, in points, at 10, 25, 50, 75 and 90 % of the time."""
        shown = [[p for at, p in self.observed if at <= self.now * part / 100][-1] for part in SAMPLED_PERCENTS]
        return [round(percent - part, 1) for percent, part in zip(shown, SAMPLED_PERCENTS, strict=True)]

    def _run(self) -> None:
        culled: set[str] = set()
        for stage in self.stages:
            started, remaining = self.now, [name for name in self.means if name not in culled]
            twice = replicates(stage, self.analysis, culled=culled)
            self.course.enter(stage, profilesets=len(remaining), replicates=twice)
            run = one_run(stage, replicated=len(twice) == len(remaining))
            raw = list(
                self._simulate(run, [each for name in remaining for each in (name, twice.get(name)) if each])
            )
            profilesets = pooled(raw, twice)
            newly_culled = set() if stage.is_last else beaten(profilesets, widening=widening(raw, twice))
            culled |= newly_culled
            self._record(stage, profilesets, newly_culled, milliseconds=round(1000 * (self.now - started)))

    def _simulate(self, run: Stage, names: Sequence[str]) -> Iterator[Profileset]:
        fights = self._fights(run)
        self._pass(self.engine.startup)
        for number, name in enumerate(["", *names], start=1):
            self._pass(self.engine.setup)
            mean = self.means[name.partition("~")[0]] if name else BASELINE_MEAN
            error = mean * SPREAD_PERCENT / 100 / math.sqrt(fights)
            figures = Statistics(self.draw.gauss(mean, error), error, error * math.sqrt(fights), 0, 0)
            for done in range(100, fights + 1, 100):
                self._pass(100 * self.engine.fight)
                self.course.meter.feed(self._line(name, f"{number}/{1 + len(names)}", figures, done, fights))
            if name:
                yield Profileset(name=name, statistics=figures, stage=run.number)

    def _fights(self, run: Stage) -> int:
        assert run.target_error is not None
        needed = (1.96 * SPREAD_PERCENT / run.target_error) ** 2
        return min(run.iterations, max(1, math.ceil(needed / 100)) * 100)

    def _line(self, name: str, position: str, figures: Statistics, done: int, fights: int) -> str:
        label = f"Profileset: {name}" if name else "Baseline:"
        error = 196 * figures.stddev / math.sqrt(done) / figures.mean
        end = f"{fights * self.engine.fight:.3f}" if done == fights else "1sec"
        bar = f"[=====>] {done}/{fights} 99.0 Mean={figures.mean:.0f} Error={error:.3f}%"
        return f"Generating {label} {position} {bar} {end}"

    def _pass(self, seconds: float) -> None:
        end = self.now + seconds
        while (sampled_at := self.observed[-1][0] + SAMPLE_SECONDS) <= end:
            self.now = sampled_at
            self.observed.append((sampled_at, self.course.advance()))
        self.now = end

    def _record(
        self, stage: Stage, profilesets: Sequence[Profileset], newly_culled: set[str], *, milliseconds: int
    ) -> None:
        stages, results, walls = self.past
        stages.append({"stage": stage.number, "profilesets": len(profilesets), "culled": len(newly_culled)})
        results += [
            {
                "stage": stage.number,
                "stddev": profileset.statistics.stddev,
                "mean_stddev": profileset.statistics.mean_stddev,
            }
            for profileset in profilesets
            if stage.is_last or profileset.name in newly_culled
        ]
        walls.append(milliseconds)
