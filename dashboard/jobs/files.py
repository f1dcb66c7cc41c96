"""Files of a job for its pages."""

from typing import Any

from jobs.api.links import path_to
from jobs.models import Artifact, Job
from jobs.results import labels, queries


def missing_files_of(job: Job) -> list[dict[str, Any]]:
    """Return the artifacts that were requested but could not be stored, with the reasons."""
    return [{**entry, "name": labels.ARTIFACTS[Artifact.Kind(entry["kind"])]} for entry in job.missing_artifacts]


def files_of(job: Job, *, is_public: bool = False) -> list[dict[str, Any]]:
    """Return a job's stored artifacts; if `is_public`, only those that a share link lists.

    Paths have no host, because a frame may only show pages of the same host.
    """
    return [
        {
            "kind": artifact.kind,
            "name": labels.ARTIFACTS[Artifact.Kind(artifact.kind)],
            "stage": artifact.stage,
            "path": path_to("artifact", artifact.token),
            "bytes": artifact.bytes,
            "is_page": artifact.kind == Artifact.Kind.HTML_REPORT,
        }
        for artifact in (queries.shared_artifacts_of(job) if is_public else queries.artifacts_of(job))
    ]
