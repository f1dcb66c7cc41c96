"""Artifacts of a job: the fields that results and manifests share, and `GET /v1/{resource}/artifacts/{id}/url`."""

from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from jobs import models
from jobs.api.base import EXAMPLE_HOST, EXAMPLE_TOKEN, JobsEndpoint
from jobs.api.errors import ArtifactExpired
from jobs.api.links import LinkBuilder
from jobs.artifacts import artifact_files
from jobs.results import queries
from simservice.api import errors
from simservice.api.operations import Operation, Parameter, ResponseSpec, Source, documented
from simservice.shapes import Count, Id, Rule, Url

FileName = Annotated[
    str, Rule(pattern=r"^(stage-[1-9][0-9]*-)?(report\.(json|html)|result\.csv|input\.simc|std(out|err)\.log)$")
]


class ArtifactFile(TypedDict):
    """A file that a job produced."""

    kind: models.Artifact.Kind
    name: Annotated[FileName, "File name of the download. Begins with `stage-N-` if it belongs to a stage"]
    stage: Annotated[int | None, Rule(minimum=1), "Null for files of the whole job"]
    url: Annotated[Url, "Download URL. Needs no API key"]
    mimeType: Annotated[str, Rule(pattern="^[a-z]+/[a-z]+$"), "Media type without parameters"]
    bytes: Annotated[Count, "Uncompressed size in bytes"]


class ArtifactUrl(TypedDict):
    """Download URL of an artifact."""

    url: Url


EXAMPLE_ARTIFACT_ID = "176352842345600043"
EXAMPLE_ARTIFACT: ArtifactFile = {
    "kind": models.Artifact.Kind.JSON_REPORT,
    "name": "report.json",
    "stage": None,
    "url": f"{EXAMPLE_HOST}/artifacts/{EXAMPLE_TOKEN}",
    "mimeType": "application/json",
    "bytes": 184320,
}
EXAMPLE_ARTIFACT_URL: ArtifactUrl = {"url": EXAMPLE_ARTIFACT["url"]}
ARTIFACT_ID = Parameter(
    name="artifact_id",
    location="path",
    shape=Id,
    description="The id of the artifact.",
    example=EXAMPLE_ARTIFACT_ID,
    source=Source(operation="getJobResult", pointer="/result/artifacts/0/id"),
)
GET_ARTIFACT_URL = Operation(
    id="getArtifactUrl",
    tag="Jobs",
    summary="Get the URL of an artifact",
    description="Anyone who has the URL can download the artifact without an API key.",
    parameters=[ARTIFACT_ID],
    returns=ResponseSpec(description="The URL of the artifact.", shape=ArtifactUrl, example=EXAMPLE_ARTIFACT_URL),
    errors=[errors.NotFound, ArtifactExpired],
)


class ArtifactUrlView(JobsEndpoint):
    """`GET /v1/{resource}/artifacts/{id}/url`"""

    @documented(GET_ARTIFACT_URL)
    def get(self, request: Request, artifact_id: str) -> Response:  # noqa: ARG002
        artifact = queries.find_artifact(self.caller().account, artifact_id)
        return Response({"url": self.links().artifact(artifact)})


def artifact_object(artifact: models.Artifact, links: LinkBuilder) -> ArtifactFile:
    """Return the fields of an artifact that results and manifests share."""
    kind = models.Artifact.Kind(artifact.kind)
    return {
        "kind": kind,
        "name": artifact_files.file_name(kind, stage=artifact.stage),
        "stage": artifact.stage,
        "url": links.artifact(artifact),
        "mimeType": artifact_files.media_type(artifact),
        "bytes": artifact.bytes,
    }
