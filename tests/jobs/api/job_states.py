"""Jobs in every state, for tests of responses."""

from collections.abc import Callable
from typing import Any

from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import CANCELLED, Outcome
from jobs.models import Job
from tests.dashboard.summaries import make_completed_job, make_failed_job
from tests.factories import make_job, make_running_job, start_attempt


def starting(**fields: Any) -> Job:
    """Return a job that a worker has claimed."""
    job = make_job(**fields)
    assert start_attempt(job, worker="worker-1")
    return job


def queued(**fields: Any) -> Job:
    job = make_job(**fields)
    assert job_moves.mark_queued(job)
    return job


def paused(**fields: Any) -> Job:
    job = queued(**fields)
    assert job_moves.pause(job)
    return Job.objects.get(pk=job.pk)


def timed_out(**fields: Any) -> Job:
    job = make_running_job(**fields)
    outcome = Outcome(status=Status.TIMED_OUT, error_code="execution_timeout", reason="It took too long.")
    assert job_moves.finish(job, outcome)
    return job


def cancelled(**fields: Any) -> Job:
    job = make_job(**fields)
    assert job_moves.finish(job, CANCELLED)
    return job


STATES: dict[str, Callable[..., Job]] = {
    "pending": make_job,
    "queued": queued,
    "paused": paused,
    "starting": starting,
    "running": make_running_job,
    "completed": make_completed_job,
    "failed": make_failed_job,
    "timed_out": timed_out,
    "cancelled": cancelled,
}
# The status that the API shows, where it differs.
PUBLIC = {"starting": "queued", "paused": "queued"}
