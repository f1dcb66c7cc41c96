"""The hosted page of one job: for whoever has its link, as the job is now (specification, `links.share`).

It shows what the public manifest tells, so no gear; it says nothing of the account, the client or the metadata.
"""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from clients.rate_limits import limited_by_address
from dashboard import results
from dashboard.files import files_of, missing_files_of
from jobs import forecast, queries, wording
from jobs.links import Links
from jobs.models import WAITING, Job
from jobs.progress import progress_of
from simservice.api.methods import read_only

HEADERS = {"X-Robots-Tag": "noindex", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


@read_only
@limited_by_address
def share(request: HttpRequest, token: str) -> HttpResponse:
    """Show one job. Raises Http404 for a link that was never given out, or after retention."""
    job = queries.find_shared(token)
    if job is None:
        raise Http404
    context = share_context(job, Links.for_request(request), search=request.GET.get("q", ""))
    response = render(request, "share.html", context)
    for name, value in HEADERS.items():
        response[name] = value
    return response


def share_context(job: Job, links: Links, *, search: str) -> dict[str, Any]:
    """Return what the page shows. Two queries, with the caller's."""
    shown = results.shown(job, search=search, with_gear=False)
    waiting = job.status in WAITING
    return {
        "job": job,
        "heading": wording.status_of(job),
        "title": title_of(shown),
        "told": told(job, shown),
        "address": links.of(job)["share"],
        "queue": place_of(job) if waiting else "",
        "waiting": waiting,
        "progress": progress_of(job),
        "shown": shown,
        "files": files_of(job),
        "missing_files": missing_files_of(job),
    }


def place_of(job: Job) -> str:
    """Return where a waiting job stands, in a sentence. No database query."""
    snapshot = forecast.current()
    return wording.place(snapshot.place_of(job) if snapshot else None)


def title_of(shown: results.Shown | None) -> str:
    """Return what the page is about: the actor's name where there is one."""
    return shown.actor["name"] if shown and shown.actor else "Simulation"


def told(job: Job, shown: results.Shown | None) -> str:
    """Return the page in a sentence, for a preview of its link."""
    if shown and shown.actor:
        return f"{wording.status_of(job)}: {shown.actor['mean']:,.0f} {shown.metric}"
    return f"{wording.status_of(job)}, submitted {job.created_at:%Y-%m-%d %H:%M} UTC"
