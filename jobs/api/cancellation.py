"""Cancellation of a job: `POST /v1/{resource}/jobs/{id}/cancel`."""

from typing import Literal, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from clients import audit
from jobs import models
from jobs.api.base import ACTIVE_JOB_HEADERS, EXAMPLE_JOB_ID, EXAMPLE_METADATA, JOB_ID, JobsEndpoint, Metadata
from jobs.api.errors import JobNotCancellable
from jobs.lifecycle import cancellation
from jobs.results import queries
from simservice.api import errors
from simservice.api.operations import Link, Operation, ResponseSpec, documented
from simservice.api.shapes import Id, Time
from simservice.api.times import iso


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
    summary="Cancel a job",
    description="A waiting job is cancelled immediately. A running job is stopped within seconds and billed for "
    "the time it ran. A repeated request changes nothing: it gets `cancel_requested` until the job has ended, and "
    "`cancelled` from then on.",
    parameters=[JOB_ID],
    responses={
        200: ResponseSpec(
            description="The job is cancelled or is being stopped.",
            shape=Cancellation,
            example=EXAMPLE_CANCELLATION,
            headers=ACTIVE_JOB_HEADERS,
            links={"getJobStatus": Link(operation="getJobStatus", parameters={"job_id": "$response.body#/id"})},
        )
    },
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
    job_id, metadata = str(job.pk), job.metadata
    if outcome.requested_at is None:
        return {"success": True, "id": job_id, "status": "cancelled", "metadata": metadata}
    return {
        "success": True,
        "id": job_id,
        "status": "cancel_requested",
        "cancelRequestedAt": iso(outcome.requested_at),
        "metadata": metadata,
    }
