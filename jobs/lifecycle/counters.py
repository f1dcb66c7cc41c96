"""Prometheus metrics of status changes: `docs/how-to/observe.md`."""

from prometheus_client import Counter

from jobs.enums import ErrorCode, Priority, ReturnCause, Status
from jobs.models import Job
from simservice.redis import shared_metrics
from simservice.redis.shared_metrics import SharedCounter, SharedHistogram
from simservice.telemetry.metrics import REGISTRY

LANES = {"lane": [priority.api_name for priority in Priority]}
OUTCOMES = {"outcome": [Status.COMPLETED.value, *ErrorCode.values]}
SUBMITTED = Counter("simservice_jobs_submitted_total", "Accepted jobs.", ["lane"], registry=REGISTRY)
ENDED = SharedCounter("jobs_ended", "Ended jobs; the outcome is `completed` or the error code.", LANES | OUTCOMES)
LOST = SharedCounter("attempts_lost", "Attempts that were lost, whose job returned to the queue.", LANES)
RETURNED = SharedCounter(
    "attempts_returned", "Attempts that a worker or an operator ended, whose job returned to the queue.", LANES
)
WAIT_SECONDS = SharedHistogram(
    "job_wait_seconds",
    "Seconds from the submission of a job to its first claim.",
    LANES,
    buckets=(0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
)
RUN_SECONDS = SharedHistogram(
    "job_run_seconds",
    "Seconds from the start of a job's first simulator in its last attempt to the end of the job.",
    LANES,
    buckets=(0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200),
)
SHARED = (ENDED, LOST, RETURNED, WAIT_SECONDS, RUN_SECONDS)


def record_submission(job: Job) -> None:
    """Count an accepted job."""
    SUBMITTED.labels(lane_of(job)).inc()


def record_claim(job: Job) -> None:
    """Add the wait of a job that was just claimed, unless it had an earlier attempt."""
    if job.attempt == 1:
        waited = (job.updated_at - job.created_at).total_seconds()
        shared_metrics.record(WAIT_SECONDS.increments(waited, lane_of(job)))


def record_requeue(job: Job, *, cause: ReturnCause) -> None:
    """Count an attempt whose job returned to the queue."""
    counter = LOST if cause == ReturnCause.LOST else RETURNED
    shared_metrics.record(counter.increments(lane_of(job)))


def record_end(job: Job, *, outcome: str, ran_seconds: float | None) -> None:
    """Count an ended job, and add its duration unless no simulator ran."""
    lane = lane_of(job)
    ran = {} if ran_seconds is None else RUN_SECONDS.increments(ran_seconds, lane)
    shared_metrics.record(ENDED.increments(lane, outcome), ran)


def lane_of(job: Job) -> str:
    """Return the name of a job's lane."""
    return Priority(job.priority).api_name
