"""What a client that waits for a job is told: changes of its status and of its progress in whole percent."""

from collections.abc import Collection
from typing import NamedTuple

from jobs.enums import PublicStatus, Status
from jobs.live.progress import Progress, percents_of
from jobs.models import Job, public_status_of


class JobState(NamedTuple):
    """The state of an unfinished job. `percent` is rounded down."""

    status: PublicStatus
    percent: int


def state_of(job: Job, progress: Progress) -> JobState:
    """Return the state of a job with its progress."""
    return JobState(job.public_status, int(progress.percent))


def states_of(job_ids: Collection[int]) -> dict[int, JobState]:
    """Return the states of unfinished jobs; those of ended ones have no percent.

    One query, and one request to Redis if any of them runs.
    """
    rows = list(Job.objects.filter(pk__in=job_ids).values_list("pk", "status", "attempt"))
    states = {job_id: JobState(public_status_of(status), 0) for job_id, status, _ in rows}
    running = [Job(pk=job_id, attempt=attempt) for job_id, status, attempt in rows if status == Status.RUNNING]
    for job, percent in zip(running, percents_of(running), strict=True):
        states[job.pk] = JobState(PublicStatus.RUNNING, int(percent))
    return states
