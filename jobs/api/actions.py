"""Actions on a job: `POST /v1/{resource}/jobs/{id}/cancel`, `…/pause`, `…/resume` and `…/replace-links`."""

from typing import Annotated, Literal, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from clients import audit
from jobs import models
from jobs.api.base import EXAMPLE_JOB_ID, EXAMPLE_METADATA, JOB_ID, JobsEndpoint, Metadata
from jobs.api.errors import (
    InactiveEntitlement,
    InsufficientCredits,
    JobNotCancellable,
    JobNotPausable,
    PauseLimitReached,
)
from jobs.api.jobs import EXAMPLE_LINKS
from jobs.api.links import Links
from jobs.enums import PublicStatus
from jobs.lifecycle import cancellation
from jobs.queue import pausing
from jobs.results import edits, queries
from simservice.api import errors
from simservice.api.operations import Link, Operation, ResponseSpec, documented
from simservice.api.scopes import Scope
from simservice.api.times import iso, iso_or_none
from simservice.shapes import Id, Time


class Cancelled(TypedDict):
    """The job is cancelled."""

    success: Literal[True]
    id: Id
    status: Literal["cancelled"]
    metadata: Metadata


class CancelRequested(TypedDict):
    """The job is running and is being stopped."""

    success: Literal[True]
    id: Id
    status: Literal["cancel_requested"]
    cancelRequestedAt: Time
    metadata: Metadata


Cancellation = Cancelled | CancelRequested

EXAMPLE_CANCELLATION: Cancellation = {
    "success": True,
    "id": EXAMPLE_JOB_ID,
    "status": "cancel_requested",
    "cancelRequestedAt": "2026-11-20T08:10:05.000Z",
    "metadata": EXAMPLE_METADATA,
}
STATUS_LINK = {"getJobStatus": Link(operation="getJobStatus", parameters={"job_id": "$response.body#/id"})}
CANCEL_JOB = Operation(
    id="cancelJob",
    tag="Jobs",
    scope=Scope.SUBMIT,
    summary="Cancel a job",
    description="A waiting job is cancelled immediately, and billed only for its finished shards. A running job "
    "is stopped within seconds, and billed for the time it ran. A repeated request changes nothing: it gets "
    "`cancel_requested` until the job has ended, and `cancelled` from then on.",
    parameters=[JOB_ID],
    returns=ResponseSpec(
        description="The job is cancelled or is being stopped.",
        shape=Cancellation,
        example=EXAMPLE_CANCELLATION,
        links=STATUS_LINK,
    ),
    errors=[errors.NotFound, JobNotCancellable],
)


class CancelJobView(JobsEndpoint):
    """`POST /v1/{resource}/jobs/{id}/cancel`"""

    @documented(CANCEL_JOB)
    def post(self, request: Request, job_id: str) -> Response:
        job = queries.find_job(self.caller().account, job_id)
        outcome = cancellation.cancel(job, by=audit.api_key(self.caller().key, request))
        return Response(_cancellation_object(job, outcome))


def _cancellation_object(job: models.Job, outcome: cancellation.Cancellation) -> Cancellation:
    """Return the body of `POST jobs/{id}/cancel` (docs/reference/api.md#cancel-a-job)."""
    cancelled: Cancelled = {"success": True, "id": str(job.pk), "status": "cancelled", "metadata": job.metadata}
    if outcome.requested_at is None:
        return cancelled
    return {**cancelled, "status": "cancel_requested", "cancelRequestedAt": iso(outcome.requested_at)}


class Paused(TypedDict):
    """The job is paused or is being paused."""

    success: Literal[True]
    id: Id
    status: Literal["paused", "pause_requested"]
    pausedAt: Annotated[Time | None, "Null until the worker has stopped a running job"]
    metadata: Metadata


class Resumed(TypedDict):
    """The job is not paused."""

    success: Literal[True]
    id: Id
    status: PublicStatus
    metadata: Metadata


EXAMPLE_PAUSED: Paused = {
    "success": True,
    "id": EXAMPLE_JOB_ID,
    "status": "paused",
    "pausedAt": "2026-11-20T08:10:05.000Z",
    "metadata": EXAMPLE_METADATA,
}
EXAMPLE_RESUMED: Resumed = {
    "success": True,
    "id": EXAMPLE_JOB_ID,
    "status": PublicStatus.QUEUED,
    "metadata": EXAMPLE_METADATA,
}
PAUSE_JOB = Operation(
    id="pauseJob",
    tag="Jobs",
    scope=Scope.SUBMIT,
    summary="Pause a job",
    description="A waiting job is paused immediately. A running job is stopped within seconds and returns to the "
    "queue. A paused job does not start, and ends with `queue_timeout` unless it is resumed within its queue "
    "limit. Credits that it does not need are released. A repeated request changes nothing.",
    parameters=[JOB_ID],
    returns=ResponseSpec(
        description="The job is paused or is being paused.",
        shape=Paused,
        example=EXAMPLE_PAUSED,
        links=STATUS_LINK,
    ),
    errors=[errors.NotFound, JobNotPausable, PauseLimitReached],
)
RESUME_JOB = Operation(
    id="resumeJob",
    tag="Jobs",
    scope=Scope.SUBMIT,
    summary="Resume a job",
    description="The job returns to its place in the queue, where its queue limit starts again, and reserves the "
    "credits that it needs to run. Without enough credits, it stays paused. A repeated request changes nothing.",
    parameters=[JOB_ID],
    returns=ResponseSpec(
        description="The job is not paused.",
        shape=Resumed,
        example=EXAMPLE_RESUMED,
        links=STATUS_LINK,
    ),
    errors=[InsufficientCredits, InactiveEntitlement, errors.NotFound, JobNotPausable],
)


class PauseJobView(JobsEndpoint):
    """`POST /v1/{resource}/jobs/{id}/pause`"""

    @documented(PAUSE_JOB)
    def post(self, request: Request, job_id: str) -> Response:
        job = queries.find_job(self.caller().account, job_id)
        job = pausing.pause(job, by=audit.api_key(self.caller().key, request))
        body: Paused = {
            "success": True,
            "id": str(job.pk),
            "status": "paused" if job.is_paused else "pause_requested",
            "pausedAt": iso_or_none(job.paused_at),
            "metadata": job.metadata,
        }
        return Response(body)


class ResumeJobView(JobsEndpoint):
    """`POST /v1/{resource}/jobs/{id}/resume`"""

    @documented(RESUME_JOB)
    def post(self, request: Request, job_id: str) -> Response:
        job = queries.find_job(self.caller().account, job_id)
        job = pausing.resume(job, by=audit.api_key(self.caller().key, request))
        body: Resumed = {
            "success": True,
            "id": str(job.pk),
            "status": job.public_status,
            "metadata": job.metadata,
        }
        return Response(body)


class ReplacedLinks(TypedDict):
    """The job's new links."""

    success: Literal[True]
    id: Id
    links: Links
    metadata: Metadata


EXAMPLE_REPLACED: ReplacedLinks = {
    "success": True,
    "id": EXAMPLE_JOB_ID,
    "links": EXAMPLE_LINKS,
    "metadata": EXAMPLE_METADATA,
}
REPLACE_LINKS = Operation(
    id="replaceLinks",
    tag="Jobs",
    scope=Scope.MANAGE,
    summary="Replace a job's public links",
    description="The share link, the manifest and the download URLs known so far return 404 from then on, also in "
    "comparisons. A repeated request replaces the links again.",
    parameters=[JOB_ID],
    returns=ResponseSpec(description="The new links.", shape=ReplacedLinks, example=EXAMPLE_REPLACED),
    errors=[errors.NotFound],
)


class ReplaceLinksView(JobsEndpoint):
    """`POST /v1/{resource}/jobs/{id}/replace-links`"""

    @documented(REPLACE_LINKS)
    def post(self, request: Request, job_id: str) -> Response:
        job = queries.find_job(self.caller().account, job_id)
        edits.replace_links(job, by=audit.api_key(self.caller().key, request))
        body: ReplacedLinks = {
            "success": True,
            "id": str(job.pk),
            "links": self.links().of(job),
            "metadata": job.metadata,
        }
        return Response(body)
