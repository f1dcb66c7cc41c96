"""The run: the baseline, then each profileset as a separate simulation.

See `docs/reference/simulator-command-line.md#iterations-and-errors`. All work is done on one core. `threads` is
only reported: with batches that keep memory small and progress frequent, much time is spent between NumPy's calls,
where threads would wait for each other. So the results depend only on the seed, not on the number of threads.
"""

import time
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from minisim.actor import ENEMY_TYPES, Actor
from minisim.combat import Encounter, Fighter, Record, batch_rows
from minisim.configuration import Configuration
from minisim.progress import PhaseProgress, Progress
from minisim.samples import Samples
from minisim.scaling import Change, Mean, Scaling, Stopped, phases, scaling_of
from minisim.settings import DETERMINISTIC_SEED, FIGHT_STYLES, Settings
from minisim.sheet import Sheet, sheet_of
from minisim.values import SimulatorError

UPDATES_PER_PHASE = 100
# Fights per batch: fewer waste time between NumPy's calls, more delay progress and interrupts.
MIN_BATCH, MAX_BATCH = 25, 250
# Fights per batch if nobody does damage: they cost nearly nothing, but the default is a million of them.
IDLE_BATCH = 10_000
MIN_FIGHT_SECONDS = 1.0
MAX_PROJECTED_RATIO = 1e6  # The largest ratio of error to target error in the projection of iterations.


class StopFlag:
    """A flag set by SIGINT or an error; the simulation stops after the current batch."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        """Request the end of the simulation."""
        self.is_set = True


@dataclass(slots=True)
class AbilityTotals:
    """Sums over all fights of one actor, by ability."""

    names: list[str]
    counts: NDArray[np.float64]
    damage: NDArray[np.float64]


@dataclass(slots=True)
class ActorResult:
    """The results of one actor; only the baseline has a record."""

    actor: Actor
    sheet: Sheet
    abilities: AbilityTotals
    record: Record | None
    dps: Samples = field(default_factory=Samples)


@dataclass(slots=True)
class PhaseResult:
    """One baseline or profileset. `is_complete` is False if it was stopped before its target."""

    settings: Settings
    actors: list[ActorResult]
    enemies: list[str] = field(default_factory=list)
    lengths: Samples = field(default_factory=Samples)
    raid_dps: Samples = field(default_factory=Samples)
    is_complete: bool = False

    @property
    def iterations(self) -> int:
        """Return the number of finished fights."""
        return self.lengths.count

    def error_percent(self) -> float:
        """Return half the confidence interval of the mean DPS in percent of the mean, of the worst actor.

        Actors without damage do not count; it is 0 if nobody does any.
        """
        dealers = [actor.dps for actor in self.actors if actor.dps.mean]
        estimator = self.settings.confidence_estimator
        return max((100 * estimator * dps.mean_std_dev / dps.mean for dps in dealers), default=0.0)

    def metric(self, player: Actor) -> Samples | None:
        """Return the samples that profilesets are ranked by; None for a metric that this model does not measure."""
        name = self.settings.primary_metric
        if name in {"dps", "prioritydps", "dpse"}:
            return next(result.dps for result in self.actors if result.actor is player)
        return {"raid_dps": self.raid_dps, "time": self.lengths}.get(name)

    def events(self) -> int:
        """Return the number of casts, procs and passive hits of all actors in all fights."""
        return sum(int(actor.abilities.counts.sum()) for actor in self.actors)


class Phase:
    """One simulation: a configuration, its fighters and their results."""

    def __init__(
        self,
        configuration: Configuration,
        settings: Settings,
        *,
        stream: str = "",
        with_record: bool = False,
        change: Change | None = None,
    ) -> None:
        """Create a phase. With the same seed, each `stream` has different random numbers."""
        players = configuration.players()
        enemies = [actor.name for actor in configuration.actors if actor.kind in ENEMY_TYPES]
        _, uptime, targets = FIGHT_STYLES[settings.fight_style]
        encounter = Encounter(max(settings.desired_targets, len(enemies), targets), uptime)
        entropy = (settings.seed, zlib.crc32(stream.encode(errors="surrogatepass")), len(stream))
        seeds = np.random.SeedSequence(entropy).spawn(len(players) + 1)
        self._rng, *streams = map(np.random.default_rng, seeds)
        self._settings = settings
        # The iterations until the target error, as expected at the last two checks of the error.
        self._projections: deque[int] = deque(maxlen=2)
        self._fighters = [
            Fighter(sheet_of(actor, change.applied if change else None), encounter, rng)
            for actor, rng in zip(players, streams, strict=True)
        ]
        results = []
        for actor, fighter in zip(players, self._fighters, strict=True):
            count = len(fighter.abilities)
            totals = AbilityTotals(fighter.abilities, np.zeros(count), np.zeros(count))
            results.append(ActorResult(actor, fighter.sheet, totals, Record(count) if with_record else None))
        enemies += ["Fluffy_Pillow"] * (settings.desired_targets - len(enemies))
        self._result = PhaseResult(settings, results, enemies)

    def run(self, progress: Progress, stop: StopFlag) -> PhaseResult:
        """Fight until the last iteration, the target error, or `stop`, but at least one batch."""
        result = self._result
        for lengths in self._batches():
            before = result.iterations // self._interval()
            self._fight(lengths)
            is_due = result.iterations // self._interval() > before
            result.is_complete = self._is_complete(is_analysis_due=is_due)
            if result.is_complete or stop.is_set:
                # After a stop, too, the last update says that all fights are done.
                progress.update(self._progress(total=result.iterations), finished=True)
                break
            if is_due:
                progress.update(self._progress(total=self._expected()))
        return result

    def _batches(self) -> Iterator[NDArray[np.float64]]:
        """Yield the lengths of fights, batch by batch, up to the last iteration."""
        settings = self._settings
        max_seconds = settings.max_time * (1 + settings.vary_combat_length)
        rows = min(batch_rows(max_seconds), MAX_BATCH, max(MIN_BATCH, self._interval()))
        if not any(fighter.sheet.actions for fighter in self._fighters):
            rows = IDLE_BATCH
        for first in range(0, settings.iterations, rows):
            yield self._lengths(np.arange(first, min(first + rows, settings.iterations)))

    def _lengths(self, iterations: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return lengths: uniform with a target error, otherwise alternating ever farther from the mean."""
        settings = self._settings
        if settings.target_error > 0:
            spread = self._rng.uniform(-1, 1, len(iterations))
        else:
            spread = np.where(iterations % 2, 1, -1) * iterations / settings.iterations
        lengths = settings.max_time * (1 + settings.vary_combat_length * spread)
        return np.maximum(lengths, MIN_FIGHT_SECONDS)

    def _fight(self, lengths: NDArray[np.float64]) -> None:
        result = self._result
        raid = np.zeros(len(lengths))
        for actor, fighter in zip(result.actors, self._fighters, strict=True):
            fights = fighter.fight(lengths, actor.record)
            actor.dps.add(fights.damage / lengths)
            actor.abilities.counts += fights.counts
            actor.abilities.damage += fights.totals
            raid += fights.damage
        result.raid_dps.add(raid / lengths)
        result.lengths.add(lengths)

    def _is_complete(self, *, is_analysis_due: bool) -> bool:
        settings, done = self._settings, self._result.iterations
        if done >= settings.iterations or settings.target_error <= 0 or not is_analysis_due:
            return done >= settings.iterations
        error = self._result.error_percent()
        if error > 0:
            self._projections.append(int(done * min(error / settings.target_error, MAX_PROJECTED_RATIO) ** 2))
        return done > 1 and 0 < error <= settings.target_error

    def _expected(self) -> int:
        """Return the expected iterations, with a target error those of the check before, if there was one.

        So an update can say that all fights are done, and the next one expects more, as in the real simulator.
        """
        limit = self._settings.iterations
        return min(max(self._projections[0], self._result.iterations), limit) if self._projections else limit

    def _progress(self, *, total: int) -> PhaseProgress:
        result = self._result
        estimate = (result.raid_dps.mean, result.error_percent()) if self._settings.target_error > 0 else None
        return PhaseProgress(result.iterations, total, estimate)

    def _interval(self) -> int:
        """Return the number of iterations between two checks of the error, or between two progress updates."""
        settings = self._settings
        if settings.target_error > 0:
            return settings.analyze_error_interval
        return max(1, settings.iterations // UPDATES_PER_PHASE)


@dataclass(frozen=True, slots=True)
class ProfilesetResult:
    """One finished profileset, in the requested metric. `mean_error` is half a confidence interval."""

    name: str
    mean: float
    min: float
    max: float
    stddev: float
    mean_stddev: float
    mean_error: float
    median: float
    first_quartile: float
    third_quartile: float
    iterations: int


@dataclass(slots=True)
class Outcome:
    """The contents of a report. Times are in seconds."""

    baseline: PhaseResult
    profilesets: list[ProfilesetResult]
    warnings: list[str]
    is_cancelled: bool
    scaling: Scaling | None = None  # None if the run was stopped before its end.
    finished_profilesets: int = 0  # Includes those without damage, which have no result.
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    events: int = 0


def check_players(configuration: Configuration) -> None:
    """Raise SimulatorError unless there are players, with known items."""
    for player in configuration.players():
        try:
            sheet_of(player)
        except SimulatorError as error:
            raise SimulatorError(f"Initializing: {error}") from error


def profileset_warnings(configuration: Configuration, settings: Settings) -> Iterator[str]:
    """Prepare each profileset once and yield its warnings. Raises SimulatorError for the first that cannot run."""
    if configuration.profilesets:
        configuration.main_actor()
        configuration.reported_player()
    for name in configuration.profilesets:
        try:
            variant, _ = _prepare(configuration, settings, name)
        except SimulatorError as error:
            raise SimulatorError(f"Profileset '{name}' Setup failure: {error}") from error
        yield from variant.warnings


def simulate(configuration: Configuration, settings: Settings, stop: StopFlag) -> Outcome:
    """Run the baseline and all profilesets. A profileset that does not finish is left out.

    `settings` are the completed settings of the configuration.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    count = 1 + phases(configuration.players(), settings) + len(configuration.profilesets)
    progress = Progress(phases=count, tabular=settings.progressbar_type == 1)
    progress.start_phase("Baseline")
    baseline = Phase(configuration, settings, with_record=True).run(progress, stop)
    outcome = Outcome(baseline, [], configuration.warnings, is_cancelled=False, events=baseline.events())
    if not stop.is_set:
        outcome.scaling = _scaling(configuration, outcome, progress, stop)
    for name in configuration.profilesets:
        if stop.is_set:
            break
        progress.start_phase("Profileset", name)
        variant, phase = _prepare(configuration, settings, name)
        result = phase.run(progress, stop)
        outcome.events += result.events()
        metric = result.metric(variant.reported_player())
        outcome.finished_profilesets += result.is_complete
        if result.is_complete and metric and metric.mean:
            outcome.profilesets.append(_summary(name, metric, result.settings))
    outcome.is_cancelled = stop.is_set
    outcome.cpu_seconds, outcome.wall_seconds = time.process_time() - cpu, time.perf_counter() - wall
    return outcome


def _scaling(configuration: Configuration, outcome: Outcome, progress: Progress, stop: StopFlag) -> Scaling | None:
    """Run the simulations of scale factors and plots, and return them, or None if they were stopped."""

    def simulate(label: str, settings: Settings, change: Change) -> dict[str, Mean]:
        progress.start_phase(label)
        phase = Phase(configuration, settings, stream=f"{change.points:g} {change.stat}", change=change)
        result = phase.run(progress, stop)
        outcome.events += result.events()
        if not result.is_complete:
            raise Stopped
        return _means(result)

    baseline = outcome.baseline
    return scaling_of(configuration.players(), baseline.settings, _means(baseline), simulate)


def _means(result: PhaseResult) -> dict[str, Mean]:
    estimator = result.settings.confidence_estimator
    return {each.actor.name: Mean(each.dps.mean, estimator * each.dps.mean_std_dev) for each in result.actors}


def _prepare(configuration: Configuration, settings: Settings, name: str) -> tuple[Configuration, Phase]:
    """Return a profileset's configuration and phase, with its own target.

    Unlike in the real simulator, profilesets use the run's seed, so that a run can be repeated. With
    `deterministic=1`, they use a fixed seed instead, so that equal profilesets have equal results in all runs.
    """
    variant = configuration.variant(name)
    seed = DETERMINISTIC_SEED if settings.deterministic else settings.seed
    own = replace(variant.settings.completed(), seed=seed)
    return variant, Phase(variant, own, stream=name)


def _summary(name: str, metric: Samples, settings: Settings) -> ProfilesetResult:
    lowest, highest = metric.range()
    first, median, third = metric.quartiles()
    # With a fixed split of the work, the real simulator reports the iterations of its main thread.
    has_split = settings.deterministic and metric.count >= settings.threads
    return ProfilesetResult(
        name=name,
        mean=metric.mean,
        min=lowest,
        max=highest,
        stddev=metric.std_dev,
        mean_stddev=metric.mean_std_dev,
        mean_error=metric.mean_std_dev * settings.confidence_estimator,
        median=median,
        first_quartile=first,
        third_quartile=third,
        iterations=metric.count // settings.threads if has_split else metric.count,
    )
