"""The share page of a job, for anyone with its link (docs/reference/api.md#share-page).

It shows the full summary, like the public manifest, but never the account, the client or the metadata.
"""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from clients.rate_limits import limited_by_address
from dashboard import results
from dashboard.jobs import preview
from dashboard.jobs.files import files_of, missing_files_of
from dashboard.results import ranking_csv
from jobs.api.links import LinkBuilder, path_to
from jobs.artifacts import retention
from jobs.enums import Priority, Status
from jobs.live.progress import progress_of
from jobs.models import Job
from jobs.queue import forecast
from jobs.results import endings, labels, queries, report_data, verdicts
from jobs.results.report_data import DataFile
from simservice.api.methods import read_only
from simservice.postgresql.connections import snapshot

HEADERS = {"X-Robots-Tag": "noindex", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
DATA_LABELS = {
    DataFile.DATA_JSON: "JSON",
    DataFile.DATA_CSV: "CSV",
    DataFile.INPUT: "input",
    DataFile.OUTPUT: "output",
    DataFile.HTML: "report",
}


@read_only
@limited_by_address
def share(request: HttpRequest, token: str) -> HttpResponse:
    """Show one job; after its retention period, say so. Return only the content for htmx requests.

    Raises Http404 for a link that never existed or was replaced.
    """
    options = results.Options.of(request.GET)
    with snapshot():
        job = queries.find_shared(token)
        files, result = (files_of(job, is_public=True), results.load(job, options)) if job else ([], None)
    if job is None:
        if Job.objects.filter(share_token=token).exists():
            return _with_headers(render(request, "share_expired.html", status=410))
        raise Http404
    links = LinkBuilder.for_request(request)
    progress = progress_of(job)
    context = {
        "job": job,
        "heading": labels.status_of(job),
        "title": job.public_title,
        "description": _description(job),
        "kept_until": retention.kept_until(job),
        "address": links.of(job)["share"],
        "shared_view": options.added_to(links.of(job)["share"]),
        "ranking_table": options.baseline_of(reverse("shared_ranking", args=(token,))),
        "hides_inputs": not job.shows_inputs,
        "ending": endings.ending_of(job, reason=labels.public_reason(job)),
        "queue": queue_position(job) if job.is_waiting else "",
        "waiting": job.is_waiting,
        "running": job.status == Status.RUNNING,
        "progress": progress,
        "live": preview.live_of(job, progress),
        "result": result,
        "is_kept": True,
        "layout": "part.html" if "HX-Request" in request.headers else "base.html",
        "files": files,
        "missing_files": missing_files_of(job),
        "data": [
            (DATA_LABELS[each], reverse("report_data", args=(token, each)))
            for each in report_data.listed(job, {file["kind"] for file in files})
        ],
        "may_sign_up": settings.ALLOW_SIGNUP,
        "picture": links.base + path_to("share_card", token),
    }
    return _with_headers(render(request, "share.html", context))


@read_only
@limited_by_address
def ranking(request: HttpRequest, token: str) -> HttpResponse:
    """Return the ranking of a shared job as CSV. Raises Http404 without a result."""
    with snapshot():
        job = queries.find_shared(token)
        compared = ranking_csv.compared_of(job, results.Options.of(request.GET)) if job else None
    if job is None or compared is None:
        raise Http404
    return _with_headers(ranking_csv.response_of(job, compared))


def _with_headers(response: HttpResponse) -> HttpResponse:
    for name, value in HEADERS.items():
        response[name] = value
    return response


def queue_position(job: Job) -> str:
    """Return the queue position of a waiting job and its expected start, or how long it can stay paused."""
    until = f"{job.queue_deadline_at:%Y-%m-%d %H:%M} UTC"
    if job.is_paused:
        return f"This job is paused. Unless it is resumed, it ends at {until} and is not billed."
    snapshot = forecast.current()
    if snapshot is None:
        return "The job is in the queue."
    if snapshot.is_paused(job):
        lane = Priority(job.priority).label.lower()
        wait = f"Unless this one has started by {until}, it ends and is not billed."
        return f"The operator has paused {lane}-priority jobs. {wait}"
    position = snapshot.position_of(job)
    ahead = "1 job is" if position.ahead == 1 else f"About {position.ahead:,} jobs are"
    sentence = f"{ahead} ahead of this one." if position.ahead else "This job is next in the queue."
    return sentence if position.seconds is None else f"{sentence} It should start {labels.soon(position.seconds)}."


def _description(job: Job) -> str:
    """Return what the result of a job says, or its status, in one line for link previews."""
    verdict, status = verdicts.verdict_of(job), labels.status_of(job)
    if verdict is None:
        return f"{status}, submitted {job.created_at:%Y-%m-%d %H:%M} UTC"
    count = verdicts.count_in(job.summary)
    facts = ["" if job.status == Status.COMPLETED else status, verdict.text, count]
    return " · ".join(filter(None, facts))
