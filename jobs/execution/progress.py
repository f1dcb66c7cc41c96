"""The progress of a running job: its percent, its preview and its output, published in Redis.

The progress of helpers' shards goes through Redis too and may be lost: it is then 0 until a shard publishes it
again, and the preview lacks some profilesets.
"""

import heapq
import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import cast

from jobs.live.preview import LISTED_PROFILESETS, Figures, Preview, RankedProfileset
from jobs.live.progress import Progress, Publisher, StageProgress
from jobs.models import Job, ShardedStage
from jobs.planning.multistage import MAX_REPLICATED, MIN_ITERATIONS, Stage, beaten, one_run, pooled, widening
from jobs.planning.past_jobs import StageStatistics
from simc.profiles.analysis import Analysis
from simc.progress import BASELINE, PROFILESET, FinishedRun, ParallelSets, Phase, ProgressMeter
from simc.reports import MAX_NAME_CHARACTERS, MIN_FIGHTS, Profileset, Report, Statistics, has_few_fights
from simservice.redis.client import best_effort, redis

# The standard deviation of fights, in percent of the mean, that is assumed until the simulator prints an error.
SPREAD_PERCENT = 8.0
# The length that earlier stages predict for a stage has the weight of observing this share of it.
PRIOR_PART = 0.02
# The pace cannot be estimated from fewer runs.
MIN_RUNS = 2
MAX_WHILE_RUNNING = 99.9
# A shorter observation says too little about the pace of a single pass.
MIN_WATCHED_SECONDS = 2.0
MIN_WATCHED_PERCENT = 5.0


@dataclass(frozen=True, kw_only=True)
class _Observed:
    """Means over the finished runs of a stage, and the share of profilesets that it keeps."""

    count: int = 0
    share_kept: float = 1.0
    spread_percent: float = SPREAD_PERCENT
    fights: float = 0.0
    fighting_seconds: float = 0.0

    def setup_fights(self, seconds_a_run: float) -> float:
        """Return how many fights take as long as preparing a run; 0 if unknown."""
        if not self.fighting_seconds:
            return 0.0
        return (seconds_a_run / self.fighting_seconds - 1) * self.fights


class ProgressEstimate:
    """The progress of a job over all its stages, in percent; it never falls.

    The current stage is assumed to continue at its pace. Its output shows how many fights the next precision takes
    and which profilesets are already beaten. Past jobs supply figures that are not known yet.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        statistics: StageStatistics | None = None,
        *,
        additional_runs: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Of the last stage, for scale factors and plots
        self.additional_runs = additional_runs
        self.stages, self.statistics, self.clock = stages, statistics or StageStatistics(), clock
        self.percent = 0.0
        self.stage, self.profilesets, self.runs = stages[0], 0, 1
        self.replicates: Mapping[str, str] = {}
        self.meter, self.observed = ProgressMeter(clock=clock), _Observed()
        self.started: float | None = None
        self.entered = 0.0
        self.expected_seconds: float | None = None

    def enter(self, stage: Stage, *, profilesets: int, replicates: Mapping[str, str]) -> None:
        """Start a stage with some profilesets; those in `replicates` run twice."""
        self.expected_seconds = self._expected_seconds(stage, profilesets)
        self.stage, self.profilesets, self.replicates = stage, profilesets, replicates
        phases = 1 + profilesets + len(replicates)
        # How many there are is only estimated, but the simulator prints it.
        self.runs = phases + self.additional(stage)
        self.meter, self.observed = ProgressMeter(expected_phases=phases, clock=self.clock), _Observed()
        self.entered = self.clock()
        if self.started is None:
            self.started = self.entered

    def additional(self, stage: Stage) -> int:
        """Return how many runs a stage has for scale factors and plots."""
        return self.additional_runs if stage.is_last else 0

    def _expected_seconds(self, stage: Stage, profilesets: int) -> float | None:
        """Return the expected seconds of a stage's runs, from the stage before; None for the first."""
        length = self._stage_seconds(self.meter.percent / 100) if self.started is not None else None
        if length is None:
            return None
        return self._seconds_of(stage, profilesets, length / self.runs)

    @property
    def startup(self) -> float:
        """Return the seconds from the beginning of the stage to the simulator's first update."""
        return 0.0 if self.meter.began_at is None else self.meter.began_at - self.entered

    def advance(self) -> float:
        """Update and return the percent of the job."""
        self.percent = max(self.percent, self._current_percent())
        return self.percent

    @property
    def seconds_left(self) -> int | None:
        """Return the seconds that the job still needs at its own pace, or None while unknown."""
        seconds = self._remaining_seconds() if len(self.stages) > 1 else self._remaining_at_pace()
        return None if seconds is None else math.ceil(seconds)

    def _remaining_at_pace(self) -> float | None:
        """Return the seconds that a single pass still needs, None if unknown."""
        meter = self.meter
        if meter.began_at is None:
            return None
        seconds, percent = self.clock() - meter.began_at, meter.percent - meter.began_percent
        if seconds < MIN_WATCHED_SECONDS or percent < min(MIN_WATCHED_PERCENT, 100 * MIN_RUNS / self.runs):
            return None
        return seconds / percent * (100 - meter.percent)

    def _current_percent(self) -> float:
        if len(self.stages) == 1:
            return self.meter.percent
        remaining, elapsed = self._remaining_seconds(), self.clock() - (self.started or 0.0)
        if remaining is None or elapsed <= 0:
            return 0.0
        return min(MAX_WHILE_RUNNING, round(100 * elapsed / (elapsed + remaining), 1))

    def _remaining_seconds(self) -> float | None:
        """Return the seconds that the job still needs, None if unknown."""
        share = self.meter.percent / 100
        length = self._stage_seconds(share)
        if length is None:
            return None
        rest = length * (1 - share)
        return rest if self.stage.is_last else rest + self._later_seconds(length / self.runs)

    def _stage_seconds(self, share: float) -> float | None:
        """Return the seconds of all runs of the stage: expected ones first, then at their pace; None if unknown."""
        if self.meter.began_at is None:
            return self.expected_seconds
        # Some fights are already done at the first update.
        watched, seconds = share - self.meter.began_percent / 100, self.clock() - self.meter.began_at
        if self.expected_seconds is not None:
            return (PRIOR_PART * self.expected_seconds + seconds) / (PRIOR_PART + watched)
        return seconds / watched if watched * self.runs >= MIN_RUNS else None

    def _later_seconds(self, seconds_a_run: float) -> float:
        """Return the seconds that the later stages will take, given the seconds that one run of this one takes."""
        seconds, remaining = 0.0, self.profilesets * self._observe().share_kept
        for later in self.stages[self.stage.number :]:
            seconds += self.startup + self._seconds_of(later, remaining, seconds_a_run)
            remaining *= self.statistics.share(later.number)
        return seconds

    def _seconds_of(self, later: Stage, remaining: float, seconds_a_run: float) -> float:
        """Return the seconds that the runs of a later stage take; it begins with `remaining` profilesets."""
        observed = self._observe()
        setup = max(
            observed.setup_fights(seconds_a_run), self.statistics.setup_fights(startup_seconds=self.startup)
        )
        pace = seconds_a_run / (setup + _fights(self.stage, observed.spread_percent, profilesets=self.profilesets))
        runs = 1 + remaining + (self.additional_runs if later.is_last else min(remaining, MAX_REPLICATED))
        return pace * runs * (setup + _fights(later, observed.spread_percent, profilesets=remaining))

    def _observe(self) -> _Observed:
        """Return the figures of this stage's finished runs, updated when their number has grown by 5 %."""
        if self.meter.finished_count > self.observed.count * 1.05 or self.observed.count == 0:
            phases = [phase for phase in self.meter.finished_phases if phase.error_percent]
            share = self._share_kept(phases)
            self.observed = _Observed(
                count=self.meter.finished_count,
                share_kept=share,
                spread_percent=_spread_percent(phases),
                fights=fmean(phase.iterations for phase in phases) if phases else 0.0,
                fighting_seconds=fmean(phase.fighting_seconds for phase in phases) if phases else 0.0,
            )
        return self.observed

    def _share_kept(self, phases: Sequence[Phase]) -> float:
        """Return the share of this stage's profilesets that the next stage will have.

        While the best may still be unseen, too few seem beaten, so past jobs have more weight.
        """
        profilesets = [profileset for profileset in map(_profileset_of, phases) if profileset is not None]
        seen = pooled(profilesets, self.replicates)
        expected = self.statistics.share(self.stage.number)
        if not seen:
            return expected
        kept = 1 - len(beaten(seen, widening=widening(profilesets, self.replicates))) / len(seen)
        weight = min(1.0, len(seen) / self.profilesets) ** 2
        return math.pow(expected, 1 - weight) * math.pow(kept, weight)


def _spread_percent(phases: Sequence[Phase]) -> float:
    """Return the standard deviation of fights in percent of the mean, from the printed errors."""
    if not phases:
        return SPREAD_PERCENT
    squares = [phase.iterations * (phase.error_percent / 1.96) ** 2 for phase in phases]
    return math.sqrt(sum(squares) / len(squares))


def _fights(stage: Stage, spread: float, *, profilesets: float) -> float:
    """Return the number of fights of one run. The simulator checks the error after every hundred."""
    run = one_run(stage, replicated=not stage.is_last and profilesets <= MAX_REPLICATED)
    needed = (1.96 * spread / run.target_error) ** 2 if run.target_error else 0.0
    return min(run.iterations, max(1, math.ceil(needed / MIN_ITERATIONS)) * MIN_ITERATIONS)


def _profileset_of(phase: Phase) -> Profileset | None:
    """Return the figures printed for a profileset, or None if the phase is not a profileset's."""
    if not phase.label.startswith(PROFILESET):
        return None
    error = phase.mean * phase.error_percent / 196
    figures = Statistics(
        mean=phase.mean, mean_stddev=error, stddev=error * math.sqrt(phase.iterations), min=0, max=0
    )
    return Profileset(name=phase.label.removeprefix(PROFILESET), statistics=figures, stage=1)


class LiveResults:
    """Collects the figures of the baseline and of finished profilesets over all stages of an attempt.

    They come from the simulator's output and, once a shard or a stage has ended, from its report. One thread adds
    figures while another reads them, so the methods use only atomic operations on dicts.
    """

    def __init__(self, *, has_means: bool, metric: str = "dps") -> None:
        """Create an empty collection; without `has_means`, the output only counts profilesets.

        As in summaries, the baseline has the metric `dps` unless it is `raid_dps`.
        """
        self.has_means, self.metric = has_means, "raid_dps" if metric == "raid_dps" else "dps"
        self.stage, self.profilesets, self.widening = 1, 0, 1.0
        self.baseline: RankedProfileset | None = None
        self.ranked: dict[str, RankedProfileset] = {}
        self._replicates: Mapping[str, str] = {}
        self._originals: Mapping[str, str] = {}
        # Of the current stage: finished runs, and the names of profilesets with at least one.
        self._runs: dict[str, FinishedRun] = {}
        self._name_characters = 0
        self._finished: dict[str, None] = {}

    def enter(self, stage: int, *, profilesets: int, replicates: Mapping[str, str]) -> None:
        """Start a stage with some profilesets; those in `replicates` run twice."""
        self.stage, self.profilesets = stage, profilesets
        self._replicates = replicates
        self._originals = {replicate: name for name, replicate in replicates.items()}
        self._runs, self._name_characters, self._finished = {}, 0, {}

    def add_baseline(self, update: Phase | ParallelSets | None) -> None:
        """Add an update of the baseline; others are ignored."""
        if not isinstance(update, Phase) or not update.label.startswith(BASELINE):
            return
        if self.has_means and update.mean and update.iterations:
            run = FinishedRun(update.label, update.mean, update.error_percent, update.iterations)
            self.baseline = _more_precise(self.baseline, _figures([run], name=update.label, stage=self.stage))

    def add(self, run: FinishedRun | None) -> None:
        """Add a finished run of a profileset. Names that the profile cannot have are ignored."""
        if run is None or (run.name not in self._runs and not self._has_room_for(run.name)):
            return
        self._runs[run.name] = run
        name = self._originals.get(run.name, run.name)
        self._finished[name] = None
        pair = {name, self._replicates.get(name, name)}
        runs = [run for each in pair if (run := self._runs.get(each)) and run.mean]
        if self.has_means and runs:
            self.ranked[name] = _more_precise(self.ranked.get(name), _figures(runs, name=name, stage=self.stage))

    def add_reported_baseline(self, report: Report) -> None:
        """Add the baseline of a report of this stage."""
        if report.baseline is not None:
            statistics = report.raid_dps if self.metric == "raid_dps" else report.baseline.dps
            self.baseline = _more_precise(self.baseline, self._reported(BASELINE, statistics))

    def add_reported(self, report: Report) -> None:
        """Add the profilesets of a report of this stage, which can contain replicates."""
        for name, statistics in (
            (each.name, each.statistics) for each in pooled(report.profilesets, self._replicates)
        ):
            self._finished[name] = None
            self.ranked[name] = _more_precise(self.ranked.get(name), self._reported(name, statistics))

    def _reported(self, name: str, statistics: Statistics) -> RankedProfileset:
        error = 0.0 if has_few_fights(statistics.stddev, statistics.mean_stddev) else statistics.mean_error
        return RankedProfileset(name=name, mean=statistics.mean, error=error, stage=self.stage)

    def _has_room_for(self, name: str) -> bool:
        """Count a new name, and return whether the stage can have as many names of this length."""
        self._name_characters += len(name)
        most = self.profilesets + len(self._replicates)
        return len(self._runs) < most and self._name_characters <= MAX_NAME_CHARACTERS

    def preview(self, *, seconds_left: int | None) -> Preview | None:
        """Return the preview, or None if nothing is known yet."""
        baseline, finished = self.baseline, min(len(self._finished), self.profilesets)
        if seconds_left is None and baseline is None and not (finished or self.ranked):
            return None
        best = heapq.nlargest(LISTED_PROFILESETS, list(self.ranked.values()), key=lambda entry: entry.mean)
        return Preview(
            seconds_left=seconds_left,
            baseline=baseline and Figures(mean=baseline.mean, error=baseline.error),
            finished=finished,
            count=self.profilesets,
            best=best,
            metric=self.metric,
        )


def has_means(analysis: Analysis) -> bool:
    """Return whether the printed means are those of the results.

    With several actors, the simulator prints the mean of the actor with the largest error.
    """
    return analysis.variants == len(analysis.profilesets) and analysis.metric == "dps"


def _figures(runs: Sequence[FinishedRun], *, name: str, stage: int) -> RankedProfileset:
    """Return the combined figures of one or two runs of a simulation."""
    fights = sum(run.iterations for run in runs)
    errors = [run.iterations * run.mean * run.error_percent / 100 for run in runs]
    return RankedProfileset(
        name=name,
        mean=sum(run.iterations * run.mean for run in runs) / fights,
        error=math.hypot(*errors) / fights if fights >= MIN_FIGHTS else 0.0,
        stage=stage,
    )


def _more_precise(known: RankedProfileset | None, new: RankedProfileset) -> RankedProfileset:
    """Return the new figures, unless those of an earlier stage are more precise. An error of 0 is unknown."""
    if known is None or known.stage == new.stage:
        return new
    return new if (new.error or math.inf) <= (known.error or math.inf) else known


KEPT_SECONDS = 600
# The conductor takes the runs twice a second, so more are waiting only while it does not run.
MAX_RUNS = 2_000


class JobProgress:
    """The progress of an attempt, from the output of its simulators."""

    def __init__(
        self,
        job: Job,
        stages: Sequence[Stage],
        statistics: StageStatistics | None,
        *,
        analysis: Analysis,
        scrub: Callable[[str], str],
    ) -> None:
        additional = analysis.weight_runs + analysis.plot.points
        self.estimate = ProgressEstimate(stages, statistics, additional_runs=additional)
        self.live = LiveResults(has_means=has_means(analysis), metric=analysis.metric)
        self.publisher = Publisher(job, scrub=scrub, preview=self._preview)

    def enter(self, stage: Stage, *, profilesets: int, replicates: Mapping[str, str]) -> None:
        """Start a stage with some profilesets; those in `replicates` run twice."""
        self.estimate.enter(stage, profilesets=profilesets, replicates=replicates)
        self.live.enter(stage.number, profilesets=profilesets, replicates=replicates)

    def on_line(self, stream: str, text: str) -> None:
        """Process an update of the output of the stage's only simulator."""
        self.publisher.log.update(stream, text)
        if stream == "stdout":
            self.live.add_baseline(self.estimate.meter.feed(text))
            for run in self.estimate.meter.take_finished():
                self.live.add(run)

    def on_line_end(self, stream: str) -> None:
        """Note that the last update of a stream is final."""
        self.publisher.log.end_line(stream)

    def publish(self) -> None:
        """Publish the job's progress."""
        stage, percent = self.estimate.stage, self.estimate.meter.percent
        progress = StageProgress(current=stage.number, total=stage.count, label=stage.label, percent=percent)
        self.publisher.publish(
            Progress(
                percent=self.estimate.advance(),
                stage=progress,
                variants=len(self.live.ranked),
                widening=self.live.widening,
            )
        )

    def _preview(self) -> Preview | None:
        return self.live.preview(seconds_left=self.estimate.seconds_left)


def publish_shard(stage: ShardedStage, *, number: int, percent: float, runs: deque[FinishedRun]) -> None:
    """Store the progress of a running shard, and move its newly finished `runs` to the conductor."""

    def store() -> None:
        texts = [json.dumps(run) for run in tuple(runs)]
        with redis().pipeline() as pipeline:
            pipeline.hset(_key_of(stage), str(number), percent)
            pipeline.expire(_key_of(stage), KEPT_SECONDS)
            if texts:
                pipeline.rpush(_runs_key_of(stage), *texts)
                pipeline.ltrim(_runs_key_of(stage), -MAX_RUNS, -1)
                pipeline.expire(_runs_key_of(stage), KEPT_SECONDS)
            pipeline.execute()
        for _ in texts:
            runs.popleft()

    best_effort(store, default=None)


def take_shards(stage: ShardedStage) -> tuple[dict[int, float], list[FinishedRun]]:
    """Return the percentages of shards by their numbers, and the runs that finished since the last call.

    Shards that have ended may be among the percentages.
    """

    def read() -> tuple[Mapping[str, str], list[str] | None]:
        with redis().pipeline() as pipeline:
            pipeline.hgetall(_key_of(stage))
            pipeline.lpop(_runs_key_of(stage), MAX_RUNS)
            return cast(tuple[Mapping[str, str], list[str] | None], tuple(pipeline.execute()))

    nothing: tuple[Mapping[str, str], list[str] | None] = ({}, None)
    percents, texts = best_effort(read, default=nothing)
    runs = [FinishedRun(*json.loads(text)) for text in texts or ()]
    return {int(number): float(percent) for number, percent in percents.items()}, runs


def _key_of(stage: ShardedStage) -> str:
    return f"shards:{stage.job_id}:{stage.creator}:{stage.stage}"


def _runs_key_of(stage: ShardedStage) -> str:
    return f"shard-runs:{stage.job_id}:{stage.creator}:{stage.stage}"
