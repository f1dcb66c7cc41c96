"""The files of a job as pages list them."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs import labels, queries
from jobs.api.links import path_to
from jobs.models import Artifact, Job


@dataclass(frozen=True, kw_only=True)
class File:
    """An artifact, at an address of the very host that serves the page: a frame may show nothing else."""

    name: str
    stage: int | None
    path: str
    bytes: int
    is_page: bool


@dataclass(frozen=True, kw_only=True)
class MissingFile:
    """A requested artifact that could not be stored."""

    name: str
    stage: int | None
    reason: str


def missing_files_of(job: Job) -> Sequence[MissingFile]:
    """Return a job's missing artifacts. No query."""
    return [
        MissingFile(
            name=labels.ARTIFACTS[Artifact.Kind(found["kind"])], stage=found["stage"], reason=found["reason"]
        )
        for found in job.missing_artifacts
    ]


def files_of(job: Job) -> Sequence[File]:
    """Return a job's artifacts. One query."""
    return [
        File(
            name=labels.ARTIFACTS[Artifact.Kind(found.kind)],
            stage=found.stage,
            path=path_to("artifact", found.token),
            bytes=found.bytes,
            is_page=found.kind == Artifact.Kind.HTML_REPORT,
        )
        for found in queries.artifacts_of(job)
    ]
