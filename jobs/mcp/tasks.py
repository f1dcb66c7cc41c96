"""Jobs as the protocol's tasks. Every job is a task with the same id, however it was submitted."""

from datetime import timedelta

from mcp import types

from billing.models import Account
from jobs.api.polling import poll_after_seconds
from jobs.artifacts import retention
from jobs.enums import PublicStatus
from jobs.live.progress import progress_of
from jobs.models import Job
from jobs.queue.forecast import estimated_start
from jobs.results import labels, listing
from simservice.api.pagination import make_cursor, read_cursor

PAGE = 50
ENDS: dict[str, types.TaskStatus] = {
    PublicStatus.COMPLETED: "completed",
    PublicStatus.FAILED: "failed",
    PublicStatus.TIMED_OUT: "failed",
    PublicStatus.CANCELLED: "cancelled",
}


def task_of(job: Job) -> types.Task:
    """Return a job as a task, with the time until the next poll."""
    poll = poll_after_seconds(job, progress_of(job), start=estimated_start(job))
    return _task(job, poll_interval=None if poll is None else poll * 1000)


def _task(job: Job, *, poll_interval: int | None = None) -> types.Task:
    # A cancelled task stays cancelled, even if its job ends in another way before it is stopped.
    is_cancelled = job.cancel_requested_at is not None
    return types.Task(
        taskId=str(job.pk),
        status="cancelled" if is_cancelled else ENDS.get(job.public_status, "working"),
        statusMessage=labels.status_of(job),
        createdAt=job.created_at,
        lastUpdatedAt=job.updated_at,
        ttl=timedelta(days=retention.days_of(job)) // timedelta(milliseconds=1),
        pollInterval=poll_interval,
    )


def page_of_tasks(account: Account, cursor: str | None) -> types.ListTasksResult:
    """Return a page of an account's tasks, newest first. Raises InvalidCursor."""
    before = None if cursor is None else read_cursor(cursor, account_id=account.pk)
    jobs = listing.list_jobs(account, before=before, limit=PAGE + 1).jobs
    has_more = len(jobs) > PAGE
    after = make_cursor(account_id=account.pk, last_id=jobs[PAGE - 1].pk) if has_more else None
    return types.ListTasksResult(tasks=[_task(job) for job in jobs[:PAGE]], nextCursor=after)
