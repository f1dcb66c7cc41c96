"""Results of a running job so far, as its pages show them: with the table of a finished result.

Names come from untrusted profiles and are only escaped.
"""

from dataclasses import dataclass

from dashboard.results import Options
from dashboard.results.ranking import Ranking, ranking_of
from jobs.live.preview import Preview, preview_of
from jobs.live.progress import Progress
from jobs.models import Job
from jobs.results import labels
from jobs.results.rankings import Entry
from jobs.results.verdicts import METRICS, Compared, Verdict

# The page shows the best so far; the others follow with the result.
LISTED_ROWS = 20
# Screen readers announce the progress after each of these steps.
MILESTONE_PERCENT = 25


@dataclass(frozen=True, kw_only=True)
class Live:
    """The results so far, with the verdict and the ranking of the best variants if their baseline is known."""

    preview: Preview
    time_left: str
    metric: str
    verdict: Verdict | None
    ranking: Ranking | None


def live_of(job: Job, progress: Progress) -> Live | None:
    """Return the results of a running job so far, None if nothing is known."""
    preview = preview_of(job)
    if preview is None:
        return None
    metric, compared = METRICS[preview.metric], _compared(preview, progress, job)
    verdict = ranking = None
    if compared is not None:
        verdict = compared.verdict(unit=metric)
        ranking = ranking_of(compared, Options(), count=len(compared.entries), from_baseline=True)
    time_left = labels.time_left(preview.seconds_left)
    return Live(preview=preview, time_left=time_left, metric=metric, verdict=verdict, ranking=ranking)


def _compared(preview: Preview, progress: Progress, job: Job) -> Compared | None:
    """Return the best variants so far compared with the baseline, None if one of them is missing."""
    baseline = preview.baseline
    if baseline is None or not preview.best:
        return None
    best = [
        Entry(number=number, name=entry.name, mean=entry.mean, error=entry.error, stage=entry.stage)
        for number, entry in enumerate(preview.best[:LISTED_ROWS], start=1)
    ]
    return Compared(
        best,
        Entry(number=0, name=job.character or "Baseline", mean=baseline.mean, error=baseline.error),
        count=max(preview.finished, progress.variants),
        widening=progress.widening,
        is_running=True,
        has_stages=job.multi_stage,
    )


def milestone(heading: str, progress: Progress, *, is_running: bool) -> str:
    """Return the state of a job for screen readers, which changes only a few times."""
    passed = int(progress.percent // MILESTONE_PERCENT) * MILESTONE_PERCENT
    if not is_running or not passed:
        return heading
    stage = progress.stage
    lead = f"Stage {stage.current} of {stage.total}, " if stage and stage.total > 1 else ""
    return f"{lead}{passed} % done"
