"""Results of a running job so far, as its page shows them.

Names come from untrusted profiles and are only escaped. Positions in SVG are percentages of the width, as strings.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.live.preview import Figures, Preview, RankedProfileset, preview_of
from jobs.live.progress import Progress
from jobs.models import Job
from jobs.results import labels

# The page reserves this many rows, so that the first results do not move what is below them.
RESERVED_ROWS = 8
# Screen readers announce the progress after each of these steps.
MILESTONE_PERCENT = 25


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the ranking. `rank` is None for the baseline.

    `difference`, in percent, is None for the baseline; without one, or if it is zero, all are. It is `significant`
    if it exceeds the combined margin of error. The bar has its `width` at `start`.
    """

    rank: int | None
    name: str
    figures: Figures
    difference: float | None
    significant: bool
    start: str
    width: str


@dataclass(frozen=True, kw_only=True)
class Live:
    """The results so far: `finished` of `count` profilesets, of which the best are in `rows`.

    `reserved` has an entry for each empty row below them. Bars start at `zero`.
    """

    time_left: str
    baseline: Figures | None
    finished: int
    count: int
    rows: Sequence[Row]
    listed: int
    reserved: range
    zero: str


def live_of(job: Job) -> Live | None:
    """Return the results of a running job so far, None if nothing is known. No database query."""
    preview = preview_of(job)
    if preview is None:
        return None
    scale = _Scale(preview)
    rows = _rows(preview, scale)
    expected = min(preview.count + 1, RESERVED_ROWS) if rows and preview.count else 0
    return Live(
        time_left=labels.time_left(preview.seconds_left),
        baseline=preview.baseline,
        finished=preview.finished,
        count=preview.count,
        rows=rows,
        listed=len(preview.best),
        reserved=range(max(0, expected - len(rows))),
        zero=f"{scale.percent(scale.origin):.2f}%",
    )


def milestone(heading: str, progress: Progress, *, is_running: bool) -> str:
    """Return the state of a job for screen readers, which changes only a few times."""
    passed = int(progress.percent // MILESTONE_PERCENT) * MILESTONE_PERCENT
    if not is_running or not passed:
        return heading
    stage = progress.stage
    lead = f"Stage {stage.current} of {stage.total}, " if stage and stage.total > 1 else ""
    return f"{lead}{passed} % done"


class _Scale:
    """Maps means to positions: from the baseline, or from zero without one."""

    def __init__(self, preview: Preview) -> None:
        means = [entry.mean for entry in preview.best]
        self.origin = preview.baseline.mean if preview.baseline else 0.0
        self.low, self.high = min([self.origin, *means]), max([self.origin, *means])

    def percent(self, mean: float) -> float:
        """Return the position of a mean in percent of the width."""
        span = self.high - self.low
        return (mean - self.low) / span * 100 if span else 0.0


def _rows(preview: Preview, scale: _Scale) -> list[Row]:
    """Return the profilesets and the baseline, the best first."""
    rows = [_row(entry, preview.baseline, rank, scale) for rank, entry in enumerate(preview.best, start=1)]
    if preview.baseline is not None:
        place = sum(entry.mean >= preview.baseline.mean for entry in preview.best)
        rows.insert(place, _baseline_row(preview.baseline))
    return rows


def _row(entry: RankedProfileset, baseline: Figures | None, rank: int, scale: _Scale) -> Row:
    gain = entry.mean - baseline.mean if baseline else 0.0
    start, end = sorted([scale.percent(scale.origin), scale.percent(entry.mean)])
    return Row(
        rank=rank,
        name=entry.name,
        figures=entry,
        difference=gain / abs(baseline.mean) * 100 if baseline and baseline.mean else None,
        significant=baseline is not None and abs(gain) > math.hypot(entry.error, baseline.error),
        start=f"{start:.2f}%",
        width=f"{end - start:.2f}%",
    )


def _baseline_row(baseline: Figures) -> Row:
    return Row(
        rank=None, name="Baseline", figures=baseline, difference=None, significant=False, start="0%", width="0%"
    )
