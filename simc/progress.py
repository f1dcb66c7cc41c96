"""Progress of a run, read from the simulator's output.

See `docs/reference/simulator-command-line.md#progress-lines`.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from simc.reports import MAX_NAME_CHARACTERS

PROFILESET = "Profileset: "
BASELINE = "Baseline"

# The real bar is the last one on the line, because nothing after it comes from the profile. A name that looks like
# a counter or a bar is part of the label.
_PHASE = re.compile(
    r"Generating (?P<label>.*) (?P<phase>[0-9]{1,12})/(?P<phases>[0-9]{1,12})"
    r" \[[=>.]+\] (?P<done>[0-9]{1,12})/(?P<total>[0-9]{1,12})(?: (?P<rest>[^\[]*))?",
)
_ESTIMATE = re.compile(r"(?:^| )Mean=(?P<mean>[0-9.]{1,30}) Error=(?P<error>[0-9.]{1,30})%")
# The last update of a phase ends with the elapsed time; all others end with the remaining time, in `sec`.
_ELAPSED = re.compile(
    r" {1,2}(?:(?P<minutes>[0-9]{1,6})min )?(?:(?P<seconds>[0-9.]{1,12})|(?P<ms>[0-9]{1,3})msec)(?: \([^)]*\))? *"
)
_PARALLEL = re.compile(
    r"Profilesets \([0-9]{1,6}\*[0-9]{1,6}\): (?P<done>[0-9]{1,12})/(?P<total>[0-9]{1,12}) \[[=>.]+\][^\[]*",
)


@dataclass(frozen=True, slots=True)
class Phase:
    """One update of one phase: a baseline, a profileset, or a point of a scale factor or plot."""

    label: str
    number: int  # Counted from 1.
    count: int  # Phases known so far; the number grows until the simulator has read every profileset.
    share: float  # The finished part of this phase, from 0 to 1.
    iterations: int = 0  # Finished iterations.
    mean: float = 0.0
    # Half the width of the mean's confidence interval, in percent of the mean; 0 if none is printed.
    error_percent: float = 0.0
    # Duration of the finished phase in seconds, without its preparation; 0 while it runs.
    fighting_seconds: float = 0.0

    @property
    def has_ended(self) -> bool:
        """Return whether this is the phase's last update. With a target error, a full bar can still grow."""
        return self.fighting_seconds > 0

    @property
    def known_share(self) -> float:
        """Return the finished part, 0 for a full bar that can still grow."""
        return 0.0 if self.share == 1 and self.error_percent and not self.has_ended else self.share


@dataclass(frozen=True, slots=True)
class ParallelSets:
    """One update while profilesets run in parallel: how many have ended, out of how many."""

    done: int
    count: int


class FinishedRun(NamedTuple):
    """A finished run of a profileset, with its figures as in `Phase`; they are 0 if none were printed."""

    name: str
    mean: float
    error_percent: float
    iterations: int


def finished_run(update: Phase | ParallelSets | None) -> FinishedRun | None:
    """Return the run that an update shows to be finished, or None."""
    return _run_of(update) if isinstance(update, Phase) and update.has_ended else None


def _run_of(phase: Phase) -> FinishedRun | None:
    """Return the run of a phase that has ended, or None if it is not that of a profileset."""
    if not phase.label.startswith(PROFILESET) or not phase.iterations:
        return None
    name = phase.label.removeprefix(PROFILESET)
    return FinishedRun(name, phase.mean, phase.error_percent, phase.iterations)


def parse_update(text: str) -> Phase | ParallelSets | None:
    """Return the contents of one progress update, or None if the text is not one.

    The text is untrusted; the time is linear in its length.
    """
    if match := _PHASE.fullmatch(text):
        return Phase(
            # The simulator prints a colon after the kind of phase, then the name, if any.
            label="".join(c if c.isprintable() else "\ufffd" for c in match["label"]).removesuffix(":"),
            number=int(match["phase"]),
            count=int(match["phases"]),
            share=min(1.0, int(match["done"]) / max(1, int(match["total"]))),
            iterations=int(match["done"]),
            **_estimate(match["rest"] or ""),
        )
    if match := _PARALLEL.fullmatch(text):
        return ParallelSets(done=int(match["done"]), count=int(match["total"]))
    return None


def _estimate(text: str) -> dict[str, float]:
    """Return the figures after a bar; a hostile simulator may print other text there."""
    match = _ESTIMATE.search(text)
    try:
        if match is None:
            # Without a target error, the time follows the iterations a second.
            return {"fighting_seconds": _seconds(text.removeprefix(text.partition(" ")[0]))}
        return {
            "mean": float(match["mean"]),
            "error_percent": float(match["error"]),
            "fighting_seconds": _seconds(text[match.end() :]),
        }
    except ValueError:
        return {}


def _seconds(text: str) -> float:
    match = _ELAPSED.fullmatch(text)
    if match is None:
        return 0.0
    # Milliseconds are truncated, not rounded.
    milliseconds = int(match["ms"]) + 0.5 if match["ms"] else 0.0
    return 60 * int(match["minutes"] or 0) + float(match["seconds"] or 0) + milliseconds / 1000


class ProgressMeter:
    """The percentage of one run, calculated from its updates.

    All phases have the same weight. The percentage never falls, and reaches 100 only with `finish`, because the
    simulator writes the reports after the last iteration.
    """

    _MAX_WHILE_RUNNING = 99.9

    def __init__(self, *, expected_phases: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a meter for the profile's number of phases: 1, plus 1 for each profileset.

        The simulator's own count is too low at first, because it reads profilesets while the baseline runs.
        """
        self.percent = 0.0
        self.label = ""
        # The time of the first update, and the progress at that time.
        self.began_at: float | None = None
        self.began_percent = 0.0
        self._clock = clock
        self._phases: dict[int, Phase] = {}
        self._label_characters = 0
        self._expected_phases = expected_phases
        self._latest_phase = 0
        self._open: Phase | None = None
        self._finished: list[FinishedRun] = []

    @property
    def finished_count(self) -> int:
        """Return the minimum number of phases that have ended."""
        return max(0, self._latest_phase - 1)

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds that the run still needs at its pace since the first update, None if unknown."""
        if self.began_at is None or self.percent <= self.began_percent:
            return None
        pace = (self._clock() - self.began_at) / (self.percent - self.began_percent)
        return pace * (100 - self.percent)

    @property
    def finished_phases(self) -> list[Phase]:
        """Return the last update of each ended phase."""
        return [phase for number, phase in sorted(self._phases.copy().items()) if number < self._latest_phase]

    def feed(self, text: str) -> Phase | ParallelSets | None:
        """Process one update and return its contents; other text is ignored."""
        update = parse_update(text)
        match update:
            case Phase(label, number, count):
                self.label = label
                self._latest_phase = number
                self._keep(update)
                self._note_end(update)
                self._advance(done=number - 1 + update.known_share, phases=count)
            case ParallelSets(done, count):
                self.label = "Profilesets"
                # The phases before the profilesets count too, as in the simulator's own count.
                self._advance(done=self._latest_phase + done, phases=self._latest_phase + count)
        if update is not None and self.began_at is None:
            self.began_at, self.began_percent = self._clock(), self.percent
        return update

    def take_finished(self) -> list[FinishedRun]:
        """Return the runs of profilesets that have ended since the last call. Call from one thread only."""
        taken, self._finished = self._finished, []
        return taken

    def _keep(self, phase: Phase) -> None:
        """Keep the last update of each phase. A hostile simulator may print other phases and longer names."""
        known = self._phases.get(phase.number)
        more = len(phase.label) - (len(known.label) if known else 0)
        if phase.number <= self._expected_phases and self._label_characters + more <= MAX_NAME_CHARACTERS:
            self._label_characters += more
            self._phases[phase.number] = phase

    def _note_end(self, phase: Phase) -> None:
        """Note which runs have ended: with their last update, or because another phase has begun."""
        if self._open is not None and self._open.number != phase.number:
            self._finished += filter(None, [_run_of(self._open)])
        self._finished += filter(None, [finished_run(phase)])
        self._open = None if phase.has_ended else phase

    def advance_to(self, percent: float) -> None:
        """Set the percentage of a run that several processes share, unless it is higher."""
        self.percent = max(self.percent, round(min(percent, self._MAX_WHILE_RUNNING), 1))
        if percent > 0 and self.began_at is None:
            self.began_at, self.began_percent = self._clock(), self.percent

    def finish(self) -> None:
        """Record that the run has succeeded and its reports are written."""
        self.percent = 100.0

    def _advance(self, *, done: float, phases: int) -> None:
        percent = 100 * done / max(1, phases, self._expected_phases)
        self.percent = max(self.percent, round(min(percent, self._MAX_WHILE_RUNNING), 1))
