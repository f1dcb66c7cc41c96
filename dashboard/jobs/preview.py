"""Results of a running job so far, as its page shows them.

Names come from untrusted profiles and are only escaped. Positions in SVG are percentages of the width, as strings.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.results.scale import Scale
from jobs.live.preview import Figures, Preview, RankedProfileset, preview_of
from jobs.live.progress import Progress
from jobs.models import Job
from jobs.results import labels

# The page reserves this many rows, so that the first results do not move what is below them.
RESERVED_ROWS = 8
# Screen readers announce the progress after each of these steps.
MILESTONE_PERCENT = 25


@dataclass(frozen=True, kw_only=True)
class LiveRow:
    """One line of the ranking. `rank` is None for the baseline.

    `difference`, in percent, is None for the baseline; without one, or if it is zero, all are. It is `significant`
    if it exceeds the combined margin of error. The bar has its `width` at `start`.
    """

    rank: int | None
    name: str
    figures: Figures
    difference: float | None = None
    significant: bool = False
    start: str = "0%"
    width: str = "0%"


@dataclass(frozen=True, kw_only=True)
class Live:
    """The results so far, of which the best are in `rows`.

    `reserved` has an entry for each empty row below them. Bars start at `zero`.
    """

    preview: Preview
    time_left: str
    rows: Sequence[LiveRow]
    reserved: range
    zero: str


def live_of(job: Job) -> Live | None:
    """Return the results of a running job so far, None if nothing is known."""
    preview = preview_of(job)
    if preview is None:
        return None
    # From the baseline, or from zero without one
    origin, means = preview.baseline.mean if preview.baseline else 0.0, [entry.mean for entry in preview.best]
    axis = Scale(low=min([origin, *means]), high=max([origin, *means]))
    rows = [_row(entry, preview.baseline, rank, axis) for rank, entry in enumerate(preview.best, start=1)]
    if preview.baseline is not None:
        place = sum(mean >= origin for mean in means)
        rows.insert(place, LiveRow(rank=None, name="Baseline", figures=preview.baseline))
    expected = min(preview.count + 1, RESERVED_ROWS) if rows and preview.count else 0
    return Live(
        preview=preview,
        time_left=labels.time_left(preview.seconds_left),
        rows=rows,
        reserved=range(max(0, expected - len(rows))),
        zero=f"{axis.part(origin) * 100:.2f}%",
    )


def _row(entry: RankedProfileset, baseline: Figures | None, rank: int, axis: Scale) -> LiveRow:
    gain = entry.mean - baseline.mean if baseline else 0.0
    start, end = sorted(axis.part(mean) * 100 for mean in (baseline.mean if baseline else 0.0, entry.mean))
    return LiveRow(
        rank=rank,
        name=entry.name,
        figures=entry,
        difference=gain / abs(baseline.mean) * 100 if baseline and baseline.mean else None,
        significant=baseline is not None and abs(gain) > math.hypot(entry.error, baseline.error),
        start=f"{start:.2f}%",
        width=f"{end - start:.2f}%",
    )


def milestone(heading: str, progress: Progress, *, is_running: bool) -> str:
    """Return the state of a job for screen readers, which changes only a few times."""
    passed = int(progress.percent // MILESTONE_PERCENT) * MILESTONE_PERCENT
    if not is_running or not passed:
        return heading
    stage = progress.stage
    lead = f"Stage {stage.current} of {stage.total}, " if stage and stage.total > 1 else ""
    return f"{lead}{passed} % done"
