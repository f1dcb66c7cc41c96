"""How far a job in stages is: the time it has taken, of that and the time that it still needs."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from jobs.funnels import Funnels
from jobs.multistage import LEAST_ITERATIONS, Stage, beaten, one_run
from jobs.replicates import MOST_REPLICATED, pooled, widening
from jobs.simulator.progress import Phase, ProgressMeter
from jobs.simulator.reports import Profileset, Statistics

# By how many percent of the mean one fight differs from another, until the simulator prints an error.
SPREAD_PERCENT = 8.0
# What earlier stages make of a stage's length counts as much as watching so large a part of it.
PRIOR_PART = 0.02
# Fewer runs tell nothing about the pace.
LEAST_RUNS = 2
MOST_WHILE_RUNNING = 99.9
PROFILESET = "Profileset: "


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What the ended runs of a stage tell: means over them, and the share of profilesets that it keeps."""

    count: int = 0
    share_left: float = 1.0
    spread_percent: float = SPREAD_PERCENT
    fights: float = 0.0
    fighting_seconds: float = 0.0

    def setup_fights(self, seconds_a_run: float) -> float:
        """Return how many fights take as long as preparing a run, 0 where the simulator does not show it."""
        if not self.fighting_seconds:
            return 0.0
        return (seconds_a_run / self.fighting_seconds - 1) * self.fights


class Course:
    """The percent of a job over all of its stages; it never falls.

    The current stage is assumed to go on at its pace. What it prints tells how many fights the next precision takes
    and which profilesets are beaten already. Past jobs fill in what is not known yet.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        funnels: Funnels | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stages, self.funnels, self.clock = stages, funnels or Funnels(), clock
        self.percent = 0.0
        self.stage, self.profilesets, self.runs = stages[0], 0, 1
        self.replicates: Mapping[str, str] = {}
        self.meter, self.observed = ProgressMeter(clock=clock), Observed()
        self.started: float | None = None
        self.entered = 0.0
        self.expected_seconds: float | None = None

    def enter(self, stage: Stage, *, profilesets: int, replicates: Mapping[str, str]) -> None:
        """Begin a stage of so many profilesets; those in `replicates` run twice."""
        self.expected_seconds = self._expected_seconds(stage, profilesets)
        self.stage, self.profilesets, self.replicates = stage, profilesets, replicates
        self.runs = 1 + profilesets + len(replicates)
        self.meter, self.observed = ProgressMeter(expected_phases=self.runs, clock=self.clock), Observed()
        self.entered = self.clock()
        if self.started is None:
            self.started = self.entered

    def _expected_seconds(self, stage: Stage, profilesets: int) -> float | None:
        """Return how long a stage's runs should take by the one before, None for the first."""
        length = self._stage_seconds(self.meter.percent / 100) if self.started is not None else None
        if length is None:
            return None
        return self._seconds_of(stage, profilesets, length / self.runs)

    @property
    def startup(self) -> float:
        """Return the seconds from the beginning of the stage to the simulator's first update."""
        return 0.0 if self.meter.began_at is None else self.meter.began_at - self.entered

    def advance(self) -> float:
        """Return the percent of the job as it stands now."""
        self.percent = max(self.percent, self._reached())
        return self.percent

    def _reached(self) -> float:
        if len(self.stages) == 1:
            return self.meter.percent
        left, taken = self._seconds_left(), self.clock() - (self.started or 0.0)
        if left is None or taken <= 0:
            return 0.0
        return min(MOST_WHILE_RUNNING, round(100 * taken / (taken + left), 1))

    def _seconds_left(self) -> float | None:
        """Return how long the job still needs, None while nothing tells."""
        share = self.meter.percent / 100
        length = self._stage_seconds(share)
        if length is None:
            return None
        rest = length * (1 - share)
        return rest if self.stage.is_last else rest + self._seconds_of_later(length / self.runs)

    def _stage_seconds(self, share: float) -> float | None:
        """Return how long all runs of the stage take: as expected, then at their pace; None while too few ran."""
        if self.meter.began_at is None:
            return self.expected_seconds
        # The first update is that of some fights already.
        watched, seconds = share - self.meter.began_percent / 100, self.clock() - self.meter.began_at
        if self.expected_seconds is not None:
            return (PRIOR_PART * self.expected_seconds + seconds) / (PRIOR_PART + watched)
        return seconds / watched if watched * self.runs >= LEAST_RUNS else None

    def _seconds_of_later(self, seconds_a_run: float) -> float:
        """Return how long the stages after this one will take, from what one run of this one takes."""
        seconds, left = 0.0, self.profilesets * self._observe().share_left
        for later in self.stages[self.stage.number :]:
            seconds += self.startup + self._seconds_of(later, left, seconds_a_run)
            left *= self.funnels.share(later.number)
        return seconds

    def _seconds_of(self, later: Stage, left: float, seconds_a_run: float) -> float:
        """Return how long the runs of a later stage take that begins with so many profilesets."""
        known = self._observe()
        setup = max(known.setup_fights(seconds_a_run), self.funnels.setup_fights(startup_seconds=self.startup))
        pace = seconds_a_run / (setup + fights(self.stage, known.spread_percent, profilesets=self.profilesets))
        runs = 1 + left + (0 if later.is_last else min(left, MOST_REPLICATED))
        return pace * runs * (setup + fights(later, known.spread_percent, profilesets=left))

    def _observe(self) -> Observed:
        """Return what the runs of this stage that have ended tell; looked up again for every twentieth more."""
        if self.meter.finished_count > self.observed.count * 1.05 or self.observed.count == 0:
            phases = [phase for phase in self.meter.finished_phases if phase.error_percent]
            share = self._share_left(phases)
            self.observed = Observed(
                count=self.meter.finished_count,
                share_left=share,
                spread_percent=spread_percent(phases),
                fights=fmean(phase.iterations for phase in phases) if phases else 0.0,
                fighting_seconds=fmean(phase.fighting_seconds for phase in phases) if phases else 0.0,
            )
        return self.observed

    def _share_left(self, phases: Sequence[Phase]) -> float:
        """Return the share of this stage's profilesets that the next one will have.

        As long as the best may be among those not seen yet, too few seem beaten, and past jobs count for more.
        """
        found = [profileset for profileset in map(profileset_of, phases) if profileset is not None]
        seen = pooled(found, self.replicates)
        expected = self.funnels.share(self.stage.number)
        if not seen:
            return expected
        kept = 1 - len(beaten(seen, widening=widening(found, self.replicates))) / len(seen)
        weight = min(1.0, len(seen) / self.profilesets) ** 2
        return math.pow(expected, 1 - weight) * math.pow(kept, weight)


def spread_percent(phases: Sequence[Phase]) -> float:
    """Return by how many percent of the mean fights differ, from the errors that the simulator printed."""
    if not phases:
        return SPREAD_PERCENT
    squares = [phase.iterations * (phase.error_percent / 1.96) ** 2 for phase in phases]
    return math.sqrt(sum(squares) / len(squares))


def fights(stage: Stage, spread: float, *, profilesets: float) -> float:
    """Return how many fights one run of a stage takes: the simulator looks at the error after every hundred."""
    run = one_run(stage, replicated=not stage.is_last and profilesets <= MOST_REPLICATED)
    needed = (1.96 * spread / run.target_error) ** 2 if run.target_error else 0.0
    return min(run.iterations, max(1, math.ceil(needed / LEAST_ITERATIONS)) * LEAST_ITERATIONS)


def profileset_of(phase: Phase) -> Profileset | None:
    """Return what the simulator printed of a profileset; None for another phase."""
    if not phase.label.startswith(PROFILESET):
        return None
    error = phase.mean * phase.error_percent / 196
    figures = Statistics(
        mean=phase.mean, mean_stddev=error, stddev=error * math.sqrt(phase.iterations), min=0, max=0
    )
    return Profileset(name=phase.label.removeprefix(PROFILESET), statistics=figures, stage=1)
