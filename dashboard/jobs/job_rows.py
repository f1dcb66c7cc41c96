"""Rows of lists of jobs: the subject of each job and its result."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dashboard.results import names
from jobs.enums import PublicStatus
from jobs.live.progress import percents_of
from jobs.models import Job
from jobs.results import outlines, verdicts
from jobs.results.outlines import Outline
from jobs.results.verdicts import Verdict


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """What a row shows in addition to the job's title and age. Unknown texts are empty, unknown numbers None.

    `error` is the margin of error that was reached, in percent. `percent` is the progress of a running job.
    """

    class_key: str
    specialization: str
    variants: int
    verdict: Verdict | None
    error: float | None
    fight: str
    percent: float | None


def described(jobs: Iterable[Job]) -> list[Job]:
    """Return jobs with the fields of a list, each with its JobRow as `row`.

    One query and one request to Redis, in addition to the query for the jobs.
    """
    listed = list(jobs)
    found = outlines.outlines_of(listed)
    running = [job for job in listed if job.public_status == PublicStatus.RUNNING]
    percents = dict(zip((job.pk for job in running), percents_of(running), strict=True))
    for job in listed:
        vars(job)["row"] = _row(job, found.get(job.pk, Outline()), percents.get(job.pk))
    return listed


def _row(job: Job, outline: Outline, percent: float | None) -> JobRow:
    main = (job.summary or {}).get("mainActor") or {}
    return JobRow(
        class_key=names.class_of(outline.class_name, "").replace("_", "-"),
        specialization=names.specialization_of(outline.class_name, outline.specialization),
        variants=(main.get("profilesets") or {}).get("count", 0),
        verdict=verdicts.verdict_of(job),
        error=_error_of(main) if job.has_result else None,
        fight=outline.fight,
        percent=percent,
    )


def _error_of(main: dict[str, float]) -> float | None:
    """Return the margin of error of an actor's mean in percent, None if it is unknown."""
    mean, error = float(main.get("mean") or 0), float(main.get("mean_error") or 0)
    percent = error / mean * 100 if mean > 0 else math.inf
    return percent if 0 < percent < math.inf else None
