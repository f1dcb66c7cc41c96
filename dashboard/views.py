"""The pages: what a visitor sees first, and the hosted page of one job."""

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from jobs import queries
from jobs.links import Links
from jobs.models import WAITING, Artifact, Job, Status
from jobs.progress import progress_of
from simservice.api.methods import read_only

HEADINGS = {
    Status.PENDING: "Waiting for its turn",
    Status.QUEUED: "Waiting for its turn",
    Status.STARTING: "Getting ready",
    Status.RUNNING: "Running",
    Status.COMPLETED: "Completed",
    Status.FAILED: "Failed",
    Status.CANCELLED: "Cancelled",
    Status.TIMED_OUT: "Stopped at its limit",
}
ARTIFACT_NAMES = {
    Artifact.Kind.JSON_REPORT: "Report (JSON)",
    Artifact.Kind.HTML_REPORT: "Report (HTML)",
    Artifact.Kind.CSV_REPORT: "Table (CSV)",
    Artifact.Kind.INPUT: "Input",
    Artifact.Kind.STDOUT_LOG: "Output",
    Artifact.Kind.STDERR_LOG: "Messages",
}


@read_only
def home(request: HttpRequest) -> HttpResponse:
    """Say what this is and where its doors are."""
    return render(request, "home.html", {"may_sign_up": settings.ALLOW_SIGNUP})


@read_only
def share(request: HttpRequest, token: str) -> HttpResponse:
    """Show one job as it is now to whoever has its link (specification, `links.share`)."""
    job = queries.find_shared(token)
    if job is None:
        raise Http404
    response = render(request, "share.html", share_context(job, Links.for_request(request)))
    response["X-Robots-Tag"] = "noindex"
    response["Cache-Control"] = "no-store"
    return response


def form_too_old(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001
    """Answer a form that this browser was not given: most often, one that was opened before a new login."""
    return render(request, "form_too_old.html", status=403)


def share_context(job: Job, links: Links) -> dict[str, Any]:
    """Return what the share page shows of a job."""
    summary = job.summary or {}
    actor = summary.get("mainActor")
    return {
        "job": job,
        "heading": HEADINGS[Status(job.status)],
        "waiting": job.status in WAITING,
        "progress": progress_of(job),
        "summary": summary,
        "actor": actor,
        "profilesets": compared(actor),
        "actors": summary.get("actors", {}).get("results", []),
        "downloads": [
            {"name": ARTIFACT_NAMES[Artifact.Kind(a.kind)], "url": links.artifact(a), "bytes": a.bytes}
            for a in queries.artifacts_of(job)
        ],
    }


def compared(actor: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the profilesets with their difference to the baseline in percent, and bars from 0 to 100."""
    results = (actor or {}).get("profilesets", {}).get("results", [])
    if not actor or not results:
        return []
    baseline = actor["mean"]
    top = max([baseline, *(row["mean"] for row in results)]) or 1
    return [
        {
            **row,
            "difference": (row["mean"] / baseline - 1) * 100 if baseline else None,
            "bar": row["mean"] / top * 100,
        }
        for row in results
    ]
