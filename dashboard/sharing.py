"""The share page of a job, for anyone who has its link (specification, `links.share`).

It shows the full summary, as the public manifest does, but nothing of the account, the client or the metadata, not
even the metadata's title.
"""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from clients.rate_limits import limited_by_address
from dashboard import results
from dashboard.files import files_of, missing_files_of
from jobs import labels, queries
from jobs.api.links import LinkBuilder
from jobs.models import Job
from jobs.progress import progress_of
from jobs.queueing import forecast
from simservice.api.methods import read_only
from simservice.database import snapshot

HEADERS = {"X-Robots-Tag": "noindex", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


@read_only
@limited_by_address
def share(request: HttpRequest, token: str) -> HttpResponse:
    """Show one job. Raises Http404 for a link that was never given out, or after retention."""
    with snapshot():
        job = queries.find_shared(token)
        files = files_of(job) if job else []
    if job is None:
        raise Http404
    context = share_context(job, LinkBuilder.for_request(request), search=request.GET.get("q", ""))
    context["files"] = files
    response = render(request, "share.html", context)
    for name, value in HEADERS.items():
        response[name] = value
    return response


def share_context(job: Job, links: LinkBuilder, *, search: str) -> dict[str, Any]:
    """Return a job's data for the page. No query."""
    shown = results.shown(job, search=search)
    return {
        "job": job,
        "heading": labels.status_of(job),
        "title": job.public_title,
        "told": told(job, shown),
        "address": links.of(job)["share"],
        "queue": place_of(job) if job.is_waiting else "",
        "waiting": job.is_waiting,
        "progress": progress_of(job),
        "shown": shown,
        "missing_files": missing_files_of(job),
    }


def place_of(job: Job) -> str:
    """Return where a waiting job stands, in a sentence. No database query."""
    snapshot = forecast.current()
    return labels.place(snapshot.place_of(job) if snapshot else None)


def told(job: Job, shown: results.Shown | None) -> str:
    """Return the page in a sentence, for a preview of its link."""
    if shown and shown.actor:
        figure = f"{shown.actor['mean']:,.0f} {shown.metric}"
        return f"{labels.status_of(job)}: {figure}{' (partial)' if shown.partial else ''}"
    return f"{labels.status_of(job)}, submitted {job.created_at:%Y-%m-%d %H:%M} UTC"
