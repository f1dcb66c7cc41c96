"""Replacement of public links: `POST /v1/{resource}/jobs/{id}/replace-links`."""

from typing import Literal, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from clients import audit
from jobs.api.base import ACTIVE_JOB_HEADERS, EXAMPLE_JOB_ID, EXAMPLE_METADATA, JOB_ID, JobsEndpoint, Metadata
from jobs.api.jobs import EXAMPLE_LINKS
from jobs.api.links import Links
from jobs.results import queries, sharing
from simservice.api import errors
from simservice.api.operations import Operation, ResponseSpec, documented
from simservice.api.shapes import Id


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
    summary="Replace a job's public links",
    description="The share link, the manifest and the download URLs known so far return 404 from then on, also in "
    "comparisons. A repeated request replaces the links again.",
    parameters=[JOB_ID],
    responses={
        200: ResponseSpec(
            description="The new links.", shape=ReplacedLinks, example=EXAMPLE_REPLACED, headers=ACTIVE_JOB_HEADERS
        )
    },
    errors=[errors.NotFound],
)


class ReplaceLinksView(JobsEndpoint):
    """`POST /v1/{resource}/jobs/{id}/replace-links`"""

    @documented(REPLACE_LINKS)
    def post(self, request: Request, job_id: str) -> Response:
        job = queries.find_job(self.caller().account, job_id)
        sharing.replace_links(job, by=audit.api_key(self.caller().key, request))
        body: ReplacedLinks = {
            "success": True,
            "id": str(job.pk),
            "links": self.links().of(job),
            "metadata": job.metadata,
        }
        return Response(body)
