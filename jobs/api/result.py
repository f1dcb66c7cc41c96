"""Result of a job: `GET /v1/{resource}/jobs/{id}/result`."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

from rest_framework.request import Request
from rest_framework.response import Response

from jobs import models
from jobs.api.artifacts import EXAMPLE_ARTIFACT, EXAMPLE_ARTIFACT_ID, ArtifactFile, artifact_object
from jobs.api.base import JOB_ID, PolledEndpoint
from jobs.api.errors import ResultNotReady, ResultUnavailable
from jobs.api.jobs import EXAMPLE_JOB, Job, job_object
from jobs.api.links import LinkBuilder
from jobs.api.polling import poll_after_seconds
from jobs.api.summary import (
    EXAMPLE_STAGED_SUMMARY,
    EXAMPLE_VERDICT,
    Summary,
    Verdict,
    summary_object,
    verdict_object,
)
from jobs.artifacts import artifact_files
from jobs.live.progress import progress_of
from jobs.queue.forecast import estimated_start
from jobs.results import details, queries
from jobs.results.details import Details
from simservice.api import errors
from simservice.api.errors import ValidationFailed
from simservice.api.operations import Link, Operation, Parameter, ResponseSpec, documented
from simservice.shapes import Id, Rule


class ResultArtifact(ArtifactFile):
    """A file that a job produced, with its id."""

    id: Id


class MissingArtifact(TypedDict):
    """An expected file that is missing: the JSON report, or a file that the submission requested."""

    kind: models.Artifact.Kind
    name: str
    stage: Annotated[int | None, Rule(minimum=1)]
    reason: Annotated[str, "Why the file is missing, as a sentence"]


class Result(TypedDict):
    """Summary and artifacts of a job."""

    summary: Annotated[Summary | None, "Null if the simulator wrote no report"]
    verdict: Annotated[Verdict | None, "Null if the job has no result"]
    artifacts: Annotated[list[ResultArtifact], "Files of the whole job come before those of its stages"]
    warnings: NotRequired[
        Annotated[list[str], Rule(maxItems=20), "Warnings about a run without a summary. Omitted if there are none"]
    ]
    missingArtifacts: NotRequired[Annotated[list[MissingArtifact], "Omitted if there are none"]]
    details: NotRequired[
        Annotated[
            Details | None,
            "Present only if requested with `include`. Null if the job has none, and after its retention period",
        ]
    ]


class JobResult(Job):
    """A job that has ended, and its result."""

    result: Result


EXAMPLE_DETAILS: dict[str, Any] = {
    "version": 1,
    "fight": {"style": "Patchwerk", "targets": 1, "length": 300.0, "variation": 0.2, "iterations": 10000},
    "actors": [
        {
            "name": "Example",
            "class": "Mage",
            "specialization": "Frost",
            "dps": {"mean": 1523400.5, "error": 1176.0, "min": 1468002.1, "median": 1523120.7, "max": 1590311.8},
            "abilities": [
                {"name": "Frostbolt", "share": 0.82, "dps": 1249188.4, "executes": 101.5, "hits": 103.0},
                {"name": "Water Elemental", "pet": True, "share": 0.18, "dps": 274212.1},
            ],
            "buffs": [{"name": "Icy Veins", "uptime": 41.2, "count": 2.9, "debuff": False}],
            "damage": {"step": 1, "values": [812300.0, 1702400.25, 1533100.5]},
            "weights": {
                "metric": "dps",
                "normalized": False,
                "stats": [
                    {"stat": "Int", "name": "Intellect", "weight": 27.86, "error": 5.54, "delta": 300.0},
                    {"stat": "Haste", "name": "Haste", "weight": 12.83, "error": 5.54, "delta": 300.0},
                ],
                "pawn": '( Pawn: v1: "Example-Frost": Class=Mage, Spec=Frost, Intellect=27.86, HasteRating=12.83 )',
            },
            "plots": [
                {
                    "stat": "Haste",
                    "name": "Haste",
                    "points": [
                        {"change": 0.0, "dps": 1523400.5, "error": 1176.0},
                        {"change": 160.0, "dps": 1525453.3, "error": 1181.2},
                    ],
                }
            ],
        }
    ],
}
EXAMPLE_RESULT: JobResult = {
    **EXAMPLE_JOB,
    "result": {
        "summary": EXAMPLE_STAGED_SUMMARY,
        "verdict": EXAMPLE_VERDICT,
        "artifacts": [{"id": EXAMPLE_ARTIFACT_ID, **EXAMPLE_ARTIFACT}],
        "details": cast(Details, EXAMPLE_DETAILS),
    },
}
INCLUDE = Parameter(
    name="include",
    location="query",
    shape=Literal["details"],
    description="Includes abilities, buffs, damage over time, resources, stats, gear, weights and plots of actors.",
    example="details",
)
GET_JOB_RESULT = Operation(
    id="getJobResult",
    tag="Jobs",
    summary="Get the result of a job",
    description="Returns the job, its summary and its artifacts. Available once the job has ended.",
    parameters=[JOB_ID, INCLUDE],
    returns=ResponseSpec(
        description="The job and its result.",
        shape=JobResult,
        example=EXAMPLE_RESULT,
        links={
            "getArtifactUrl": Link(
                operation="getArtifactUrl", parameters={"artifact_id": "$response.body#/result/artifacts/0/id"}
            )
        },
    ),
    errors=[errors.NotFound, ResultNotReady, ResultUnavailable],
)


class JobResultView(PolledEndpoint):
    """`GET /v1/{resource}/jobs/{id}/result`"""

    @documented(GET_JOB_RESULT)
    def get(self, request: Request, job_id: str) -> Response:  # noqa: ARG002
        if self.query.get("include", "details") != "details":
            raise ValidationFailed([{"path": "include", "message": "Must be: details."}])
        job, self.active_jobs = queries.read_job(self.caller().account, job_id, with_summary=True)
        if not job.is_terminal:
            wait = poll_after_seconds(job, progress_of(job), start=estimated_start(job))
            raise ResultNotReady({"status": job.public_status}, headers={"Retry-After": str(wait)})
        if job.started_at is None:
            raise ResultUnavailable({"status": job.public_status})
        body = _result_object(job, queries.artifacts_of(job), self.links())
        if "include" in self.query:
            # The document is the JSON of `Details`.
            body["result"]["details"] = cast(Details | None, details.document_of(job))
        return Response(body)


def _result_object(job: models.Job, stored: Sequence[models.Artifact], links: LinkBuilder) -> JobResult:
    """Return the body of `GET jobs/{id}/result` (docs/reference/api.md#job-result)."""
    listed: list[ResultArtifact] = [
        {"id": str(artifact.pk), **artifact_object(artifact, links)} for artifact in stored
    ]
    result: Result = {"summary": summary_object(job), "verdict": verdict_object(job), "artifacts": listed}
    if job.warnings:
        result["warnings"] = job.warnings
    if job.missing_artifacts:
        result["missingArtifacts"] = [
            {**cast(MissingArtifact, each), "name": artifact_files.file_name(each["kind"], stage=each["stage"])}
            for each in job.missing_artifacts
        ]
    return {**job_object(job, links), "result": result}
