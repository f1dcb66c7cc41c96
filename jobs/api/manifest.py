"""Public manifest of a job: `GET /manifests/{token}`."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict

from django.http import HttpRequest, JsonResponse

from clients.rate_limits import limited_by_address
from jobs import models
from jobs.api.artifacts import EXAMPLE_ARTIFACT, ArtifactFile, artifact_object
from jobs.api.base import EXAMPLE_COMPLETED, EXAMPLE_CREATED, EXAMPLE_JOB_ID, EXAMPLE_STARTED, EXAMPLE_TOKEN
from jobs.api.builds import EXAMPLE_JOB_BUILD, JobBuild, job_build
from jobs.api.links import LinkBuilder
from jobs.api.summary import (
    EXAMPLE_ACTORS_SUMMARY,
    EXAMPLE_ACTORS_VERDICT,
    Summary,
    Verdict,
    summary_object,
    verdict_object,
)
from jobs.enums import PublicStatus
from jobs.results import queries
from simservice.api import errors
from simservice.api.errors import NotFound, error_response
from simservice.api.methods import read_only
from simservice.api.operations import Operation, Parameter, ResponseSpec, Source, documented
from simservice.api.times import iso, iso_or_none
from simservice.shapes import Id, Rule, Time


class ManifestJob(TypedDict):
    """The public fields of a job."""

    id: Id
    status: PublicStatus
    createdAt: Time
    startedAt: Time | None
    completedAt: Time | None


class ManifestResult(TypedDict):
    """The public fields of a job's result."""

    summary: Summary | None
    verdict: Annotated[Verdict | None, "Null if the job has no result"]


class ManifestArtifact(ArtifactFile):
    """A file that a job produced, with its SHA-256 hash."""

    sha256: Annotated[str, Rule(pattern="^[0-9a-f]{64}$"), "SHA-256 of the uncompressed content"]


class Manifest(TypedDict):
    """The public result of a job, without its account and metadata."""

    version: Literal["v1"]
    job: ManifestJob
    build: JobBuild | None
    result: ManifestResult
    artifacts: Annotated[list[ManifestArtifact], "Files of the whole job come before those of its stages"]


EXAMPLE_MANIFEST: Manifest = {
    "version": "v1",
    "job": {
        "id": EXAMPLE_JOB_ID,
        "status": PublicStatus.COMPLETED,
        "createdAt": EXAMPLE_CREATED,
        "startedAt": EXAMPLE_STARTED,
        "completedAt": EXAMPLE_COMPLETED,
    },
    "build": EXAMPLE_JOB_BUILD,
    "result": {"summary": EXAMPLE_ACTORS_SUMMARY, "verdict": EXAMPLE_ACTORS_VERDICT},
    "artifacts": [
        {**EXAMPLE_ARTIFACT, "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
    ],
}
TOKEN = Parameter(
    name="token",
    location="path",
    shape=Annotated[str, Rule(pattern="^[A-Za-z0-9_-]{22}$")],
    description="The last segment of the URL.",
    example=EXAMPLE_TOKEN,
    source=Source(operation="getJob", pointer="/links/share", is_last_segment=True),
)
GET_MANIFEST = Operation(
    id="getManifest",
    tag="Public",
    summary="Get the manifest of a job",
    description="Needs no API key. The URL is `links.manifest` of a job that has ended.",
    parameters=[TOKEN],
    returns=ResponseSpec(description="The manifest.", shape=Manifest, example=EXAMPLE_MANIFEST),
    errors=[errors.NotFound, errors.RateLimitExceeded],
)


@documented(GET_MANIFEST)
@read_only
@limited_by_address
def manifest(request: HttpRequest, token: str) -> JsonResponse:
    """Respond with the manifest of a job that has ended (docs/reference/api.md#manifest)."""
    job = queries.find_shared(token)
    if job is None or not job.is_terminal:
        return error_response(NotFound(), request)
    return JsonResponse(_manifest_object(job, queries.shared_artifacts_of(job), LinkBuilder.for_request(request)))


def _manifest_object(job: models.Job, artifacts: Sequence[models.Artifact], links: LinkBuilder) -> Manifest:
    """Return the manifest of a job that has ended."""
    return {
        "version": "v1",
        "job": {
            "id": str(job.pk),
            "status": job.public_status,
            "createdAt": iso(job.created_at),
            "startedAt": iso_or_none(job.started_at),
            "completedAt": iso_or_none(job.completed_at),
        },
        "build": job_build(job),
        "result": {"summary": summary_object(job), "verdict": verdict_object(job)},
        "artifacts": [{**artifact_object(artifact, links), "sha256": artifact.sha256} for artifact in artifacts],
    }
