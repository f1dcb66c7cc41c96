"""What a client that waits for a job is told: changes of its status and of its progress in whole percent."""

from collections.abc import Collection
from typing import NamedTuple

from jobs.enums import PublicStatus, Status
from jobs.models import Job
from jobs.progress import Progress, percents_of


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
    jobs = Job.objects.filter(pk__in=job_ids).only("status", "attempt")
    states = {job.pk: JobState(job.public_status, 0) for job in jobs}
    running = [job for job in jobs if job.status == Status.RUNNING]
    for job, percent in zip(running, percents_of(running), strict=True):
        states[job.pk] = JobState(job.public_status, int(percent))
    return states
