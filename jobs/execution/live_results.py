"""The results that a job's simulators have printed so far, from which its preview is made."""

import heapq
import math
from collections.abc import Mapping, Sequence

from jobs.live.preview import LISTED_PROFILESETS, Figures, Preview, RankedProfileset
from simc.profiles.analysis import Analysis
from simc.progress import BASELINE, FinishedRun, ParallelSets, Phase
from simc.reports import MAX_NAME_CHARACTERS


class LiveResults:
    """Collects the figures of the baseline and of finished profilesets over all stages of an attempt.

    One thread adds figures while another reads them, so the methods use only atomic operations on dicts.
    """

    def __init__(self, *, has_means: bool) -> None:
        """Create an empty collection; without `has_means`, profilesets are only counted."""
        self.has_means = has_means
        self.stage, self.profilesets = 1, 0
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
        error=math.hypot(*errors) / fights,
        stage=stage,
    )


def _more_precise(known: RankedProfileset | None, new: RankedProfileset) -> RankedProfileset:
    """Return the new figures, unless those of an earlier stage are more precise. An error of 0 is unknown."""
    if known is None or known.stage == new.stage:
        return new
    return new if (new.error or math.inf) <= (known.error or math.inf) else known
