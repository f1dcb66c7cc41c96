"""Files of a job for its pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.api.links import path_to
from jobs.models import Artifact, Job
from jobs.results import labels, queries


@dataclass(frozen=True, kw_only=True)
class File:
    """A stored artifact. `path` has no host, because a frame may only show pages of the same host."""

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
            name=labels.ARTIFACTS[Artifact.Kind(entry["kind"])], stage=entry["stage"], reason=entry["reason"]
        )
        for entry in job.missing_artifacts
    ]


def files_of(job: Job, *, is_public: bool = False) -> Sequence[File]:
    """Return a job's artifacts; if `is_public`, only those that a share link lists. One query."""
    artifacts = queries.shared_artifacts_of(job) if is_public else queries.artifacts_of(job)
    return [
        File(
            name=labels.ARTIFACTS[Artifact.Kind(artifact.kind)],
            stage=artifact.stage,
            path=path_to("artifact", artifact.token),
            bytes=artifact.bytes,
            is_page=artifact.kind == Artifact.Kind.HTML_REPORT,
        )
        for artifact in artifacts
    ]
