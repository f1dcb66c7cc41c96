"""Progress lines on standard output, in both formats of the simulator.

See `docs/reference/simulator-command-line.md#progress-lines`.
"""

import sys
import time
from dataclasses import dataclass

BAR_WIDTH = 20


@dataclass(frozen=True, slots=True)
class PhaseProgress:
    """The progress of one phase. With a target error, `estimate` contains the mean and its error in percent."""

    done: int
    total: int
    estimate: tuple[float, float] | None = None


class Progress:
    """Writes one line per update and flushes it, so that a reader of the pipe receives it immediately."""

    def __init__(self, *, phases: int, tabular: bool) -> None:
        self._phases = phases
        self._tabular = tabular
        self._number = 0
        self._base = ""
        self._label = ""
        self._width = 0
        self._phase_started = self._run_started = time.perf_counter()

    def start_phase(self, base: str, label: str = "") -> None:
        """Begin the next phase: `Baseline`, or `Profileset` with the set's name."""
        self._number += 1
        self._base, self._label, self._width = base, label, 0
        self._phase_started = time.perf_counter()

    def update(self, progress: PhaseProgress, *, finished: bool = False) -> None:
        """Print the progress of the current phase; the last update of a phase ends its line."""
        elapsed = max(time.perf_counter() - self._phase_started, 1e-6)
        remaining = 0.0 if finished else elapsed * (progress.total / progress.done - 1)
        if self._tabular:
            self._write(self._row(progress, elapsed, remaining, finished=finished) + "\n")
            return
        status = self._status(progress, elapsed, remaining, finished=finished)
        padded = status.ljust(self._width)
        self._width = len(status)
        head = " ".join(filter(None, (f"Generating {self._base}:", self._label)))
        self._write(f"{head} {self._number}/{self._phases} {padded}" + ("\n" if finished else "\r"))

    def _status(self, progress: PhaseProgress, elapsed: float, remaining: float, *, finished: bool) -> str:
        length = round(BAR_WIDTH * (1.0 if finished else min(progress.done / progress.total, 1.0)))
        filled = "=" * (length - 1) + ">" if length else ""
        parts = [
            f"[{filled:.<{BAR_WIDTH}}]",
            f"{progress.done}/{progress.total}",
            f"{progress.done / elapsed:.3f}",
        ]
        if progress.estimate:
            parts.append("Mean={:.0f} Error={:.3f}%".format(*progress.estimate))
        parts.append(_elapsed(elapsed) if finished else _remaining(remaining))
        if self._phases > 1 and self._number > 1:
            parts.append(f"({_duration(self._total_remaining(remaining))})")
        return " ".join(filter(None, parts))

    def _row(self, progress: PhaseProgress, elapsed: float, remaining: float, *, finished: bool) -> str:
        cells = [self._base, *filter(None, [self._label]), self._number, self._phases]
        cells += [progress.done, progress.total, f"{progress.done / elapsed:.3f}"]
        cells += [f"{number:.3f}" for number in progress.estimate or ()]
        cells.append(f"{elapsed if finished else remaining:.3f}")
        if self._phases > 1 and not finished:
            cells.append(_duration(self._total_remaining(remaining)))
        return "\t".join(map(str, cells))

    def _total_remaining(self, remaining: float) -> float:
        """Return the remaining seconds of all phases, based on the average duration of finished phases."""
        finished = self._number - 1
        average = (self._phase_started - self._run_started) / finished if finished else 0.0
        return remaining + average * (self._phases - self._number)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _remaining(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return " ".join(filter(None, (f"{minutes}min" if minutes else "", f"{rest}sec" if rest else "")))


def _elapsed(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    lead = f"{int(minutes)}min " if minutes else ""
    return lead + (f"{rest:.3f}" if rest >= 1 else f"{int(rest * 1000)}msec")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    lead = f"{hours}h, " if hours else ""
    return lead + (f"{minutes}m, " if minutes else "") + f"{rest}s"
