"""Status of a job: `GET /v1/{resource}/jobs/{id}/status`, for polling."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Literal, NotRequired, TypedDict, cast, get_args

from rest_framework.request import Request
from rest_framework.response import Response

from jobs import models
from jobs.api.base import (
    EXAMPLE_JOB_ID,
    EXAMPLE_METADATA,
    EXAMPLE_STARTED,
    JOB_ID,
    ExitCode,
    Metadata,
    PolledEndpoint,
    Seconds,
)
from jobs.api.jobs import error_code
from jobs.api.polling import poll_after_seconds, state_of, states_of
from jobs.enums import ErrorCode, PublicStatus, StageLabel
from jobs.live import preview, progress
from jobs.queue.forecast import Estimate, estimated_start
from jobs.results import queries
from simservice.api import errors
from simservice.api.errors import ValidationFailed
from simservice.api.operations import Operation, Parameter, ResponseSpec, documented
from simservice.api.times import iso, iso_or_none
from simservice.shapes import Count, Id, Percent, Rule, Time
from simservice.web.waiting import park


class Queue(TypedDict):
    """Waiting time of a job that has not started."""

    queuedAt: Time
    estimatedStartSeconds: Annotated[Seconds | None, "Estimated seconds until the job starts. Null if unknown"]
    estimatedStartUpdatedAt: Annotated[Time | None, "When the estimate was made. Null if there is none"]


class Stage(TypedDict):
    """The current stage of a job."""

    current: Annotated[int, Rule(minimum=1)]
    total: Annotated[int, Rule(minimum=1)]
    label: StageLabel
    percent: Percent


class Progress(TypedDict):
    """Progress of a job."""

    percent: Annotated[
        Percent, "Estimated share of the running time that has passed. Keeps its last value when the job ends"
    ]
    stage: Stage | None


class LogEntry(TypedDict):
    """A line of the simulator's output."""

    source: Literal["stdout", "stderr"]
    message: str
    ts: Annotated[int, "Unix time in milliseconds"]


class PreviewFigures(TypedDict):
    """A mean, as far as it is known. The names are those of the summary."""

    mean: float
    mean_error: Annotated[float, "Half of the 95 % interval of the mean. 0 if unknown"]


class PreviewProfileset(PreviewFigures):
    """A finished profileset."""

    name: str
    stage: Annotated[int, Rule(minimum=1), "The stage that the figures are from"]


class PreviewProfilesets(TypedDict):
    """The finished profilesets of a running job."""

    finished: Annotated[Count, "Number of profilesets of the current stage that are finished"]
    count: Annotated[Count, "Number of profilesets of the current stage"]
    results: Annotated[
        list[PreviewProfileset], Rule(maxItems=50), "The highest means, best first, of all stages so far"
    ]


class Preview(TypedDict):
    """Results of a running job so far, from the simulator's output. They can still change."""

    updatedAt: Time
    secondsLeft: Annotated[Seconds | None, "Estimated seconds until the simulation ends. Null while unknown"]
    baseline: Annotated[PreviewFigures | None, "Null while unknown, and for several actors"]
    profilesets: PreviewProfilesets


class JobStatus(TypedDict):
    """Status and progress of a job."""

    id: Id
    metadata: Metadata
    status: PublicStatus
    errorCode: Annotated[ErrorCode | None, "Why the job did not complete, as a code"]
    statusReason: Annotated[str | None, "Why the job did not complete, as a sentence"]
    simcExitCode: ExitCode
    queue: Annotated[Queue | None, "Null once the simulator has started or the job has ended"]
    progress: Progress
    pollAfterSeconds: Annotated[
        Seconds | None, "Suggested time until the next request: 1 to 30. Null if the job has ended"
    ]
    logEntries: Annotated[
        list[LogEntry] | None, Rule(maxItems=200), "Null unless requested with `include` and the job is running"
    ]
    startedAt: Time | None
    pausedAt: Annotated[Time | None, "When the job was paused. Null if it is not paused"]
    updatedAt: Annotated[
        Time,
        "When the status last changed or a cancellation or pause was last requested. Progress does not change it",
    ]
    retried: Annotated[
        bool, "Whether the job returned from a worker to the queue, for example after a lost attempt"
    ]
    preview: NotRequired[
        Annotated[
            Preview | None,
            "Omitted unless requested with `include`. Null if nothing is known or the job is not running",
        ]
    ]


EXAMPLE_STATUS: JobStatus = {
    "id": EXAMPLE_JOB_ID,
    "metadata": EXAMPLE_METADATA,
    "status": PublicStatus.RUNNING,
    "errorCode": None,
    "statusReason": None,
    "simcExitCode": None,
    "queue": None,
    "progress": {
        "percent": 42.5,
        "stage": {"current": 1, "total": 1, "label": StageLabel.INITIAL, "percent": 42.5},
    },
    "pollAfterSeconds": 5,
    "logEntries": [{"source": "stdout", "message": "Generating Baseline", "ts": 1795162203000}],
    "startedAt": EXAMPLE_STARTED,
    "pausedAt": None,
    "updatedAt": "2026-11-20T08:10:07.001Z",
    "retried": False,
    "preview": {
        "updatedAt": "2026-11-20T08:10:06.802Z",
        "secondsLeft": 17,
        "baseline": {"mean": 1523400, "mean_error": 1176.0},
        "profilesets": {
            "finished": 12,
            "count": 40,
            "results": [{"mean": 1541870, "mean_error": 1190.3, "name": "Ring_B", "stage": 1}],
        },
    },
}
Included = Literal["logEntries", "preview"]
INCLUDE = Parameter(
    name="include",
    location="query",
    shape=Included,
    description="Includes the last lines of the simulator's output, or a preview of the result.",
    example="preview",
)
LONGEST_WAIT_SECONDS = 25
WAIT = Parameter(
    name="wait",
    location="query",
    shape=Annotated[int, Rule(minimum=0, maximum=LONGEST_WAIT_SECONDS, default=0)],
    description="Answers only when the status or the whole percent of the progress has changed, or after this many "
    "seconds. Responds at once if the job has ended, and if too many other requests wait.",
    example=25,
)
GET_JOB_STATUS = Operation(
    id="getJobStatus",
    tag="Jobs",
    summary="Get the status of a job",
    description="Use this endpoint to follow a job: send `wait=25` to get each change when it happens, or ask "
    "again after `pollAfterSeconds`. Stop when `status` is `completed`, `failed`, `cancelled` or `timed_out`.",
    parameters=[JOB_ID, INCLUDE, WAIT],
    returns=ResponseSpec(
        description="Status and progress of the job.",
        shape=JobStatus,
        example=EXAMPLE_STATUS,
    ),
    errors=[errors.NotFound],
)


class JobStatusView(PolledEndpoint):
    """`GET /v1/{resource}/jobs/{id}/status`"""

    @documented(GET_JOB_STATUS)
    def get(self, request: Request, job_id: str) -> Response:
        included, seconds = self.query.get("include"), _read_wait(self.query.get("wait", "0"))
        if included not in (None, *get_args(Included)):
            choices = " or ".join(get_args(Included))
            raise ValidationFailed([{"path": "include", "message": f"Must be: {choices}."}])
        job, self.active_jobs = queries.poll_job(self.caller().account, job_id)
        current = progress.progress_of(job)
        entries = progress.log_entries_of(job) if included == "logEntries" else None
        body = _status_object(job, current, entries)
        if included == "preview":
            body["preview"] = _preview(preview.preview_of(job))
        if seconds and not job.is_terminal:
            # Last, so that an error above is answered at once
            park(
                request.META,
                owner=self.caller().account.pk,
                subject=job.pk,
                state=state_of(job, current),
                seconds=seconds,
                read_states=states_of,
            )
        return Response(body)


def _read_wait(text: str) -> int:
    """Return the seconds of `wait`. Raises ValidationFailed if they are not a number from 0 to 25."""
    if text.isascii() and text.isdigit() and len(text) <= 2 and int(text) <= LONGEST_WAIT_SECONDS:
        return int(text)
    message = f"Must be an integer from 0 to {LONGEST_WAIT_SECONDS}."
    raise ValidationFailed([{"path": "wait", "message": message}])


def _status_object(
    job: models.Job, current: progress.Progress, log_entries: Sequence[progress.LogEntry] | None
) -> JobStatus:
    """Return the body of `GET jobs/{id}/status` (docs/reference/api.md#job-status)."""
    start = estimated_start(job)
    return {
        "id": str(job.pk),
        "metadata": job.metadata,
        "status": job.public_status,
        "errorCode": error_code(job),
        "statusReason": job.status_reason,
        "simcExitCode": job.simulator_exit_code,
        "queue": _queue(job, start),
        "progress": {
            "percent": current.percent,
            "stage": None if current.stage is None else cast(Stage, asdict(current.stage)),
        },
        "pollAfterSeconds": poll_after_seconds(job, current, start=start),
        "logEntries": None if log_entries is None else [cast(LogEntry, asdict(entry)) for entry in log_entries],
        "startedAt": iso_or_none(job.started_at),
        "pausedAt": iso_or_none(job.paused_at if job.is_paused else None),
        "updatedAt": iso(job.updated_at),
        "retried": job.retried,
    }


def _queue(job: models.Job, start: Estimate | None) -> Queue | None:
    if not job.is_waiting:
        return None
    return {
        "queuedAt": iso(job.created_at),
        "estimatedStartSeconds": start.seconds if start else None,
        "estimatedStartUpdatedAt": iso(start.updated_at) if start else None,
    }


def _preview(known: preview.Preview | None) -> Preview | None:
    if known is None:
        return None
    results: list[PreviewProfileset] = [
        {**_figures(entry), "name": entry.name, "stage": entry.stage} for entry in known.best
    ]
    return {
        "updatedAt": iso(datetime.fromtimestamp(known.updated_at, UTC)),
        "secondsLeft": known.seconds_left,
        "baseline": None if known.baseline is None else _figures(known.baseline),
        "profilesets": {"finished": known.finished, "count": known.count, "results": results},
    }


def _figures(known: preview.Figures) -> PreviewFigures:
    return {"mean": known.mean, "mean_error": known.error}
