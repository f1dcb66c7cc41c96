"""Actions on a job: `POST /v1/{resource}/jobs/{id}/cancel` and `POST …/jobs/{id}/replace-links`."""

from typing import Literal, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from clients import audit
from jobs import models
from jobs.api.base import EXAMPLE_JOB_ID, EXAMPLE_METADATA, JOB_ID, JobsEndpoint, Metadata
from jobs.api.errors import JobNotCancellable
from jobs.api.jobs import EXAMPLE_LINKS
from jobs.api.links import Links
from jobs.lifecycle import cancellation
from jobs.results import edits, queries
from simservice.api import errors
from simservice.api.operations import Link, Operation, ResponseSpec, documented
from simservice.api.scopes import Scope
from simservice.api.times import iso
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
CANCEL_JOB = Operation(
    id="cancelJob",
    tag="Jobs",
    scope=Scope.SUBMIT,
    summary="Cancel a job",
    description="A waiting job is cancelled immediately. A running job is stopped within seconds and billed for "
    "the time it ran. A repeated request changes nothing: it gets `cancel_requested` until the job has ended, and "
    "`cancelled` from then on.",
    parameters=[JOB_ID],
    returns=ResponseSpec(
        description="The job is cancelled or is being stopped.",
        shape=Cancellation,
        example=EXAMPLE_CANCELLATION,
        links={"getJobStatus": Link(operation="getJobStatus", parameters={"job_id": "$response.body#/id"})},
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
