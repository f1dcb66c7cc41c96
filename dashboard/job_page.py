"""One job's page: how it stands, what it did, what it found; and its cancel."""

from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from clients.members import Role
from dashboard import results
from dashboard.access import Place, account_page
from dashboard.files import files_of, missing_files_of
from dashboard.sharing import place_of
from jobs import cancellation, labels, retention
from jobs.api.links import LinkBuilder
from jobs.enums import Status
from jobs.errors import JobAlreadyEnded
from jobs.models import Job, JobEvent, Run
from jobs.progress import Progress, log_entries_of, progress_of
from simservice.database import snapshot

SHOWN_EVENTS = 100
SHOWN_LINES = 12


@account_page()
def job(request: HttpRequest, place: Place, job_id: int) -> HttpResponse:
    """Show a job. For a page that refreshes itself, omit the surrounding layout."""
    with snapshot():
        found = find(place, job_id)
        files, runs, events = files_of(found), runs_of(found), events_of(found)
    context = {
        **standing(found),
        "section": "jobs",
        "layout": "part.html" if "HX-Request" in request.headers else "dashboard/jobs_base.html",
        "progress": progress_beside(found, runs),
        "shown": results.shown(found, search=request.GET.get("q", "")),
        "advice": labels.advice(found, runs[-1]["run"] if runs else None),
        "simulated": seconds(found.sim_duration_ms),
        "priority": labels.priority_of(found),
        "files": files,
        "missing_files": missing_files_of(found),
        "runs": runs,
        "events": events,
        "share": LinkBuilder.for_request(request).of(found)["share"] if retention.is_kept(found) else None,
    }
    return render(request, "dashboard/job.html", context)


@account_page(post=Role.MEMBER, get=False)
def cancel(request: HttpRequest, place: Place, job_id: int) -> HttpResponse:
    """Cancel a job."""
    found = find(place, job_id)
    try:
        done = cancellation.cancel(found, by=place.actor)
    except JobAlreadyEnded:
        messages.error(request, "The job has ended already.")
    else:
        # The message stays above the page while that refreshes, so it must stay true when the job has ended.
        messages.success(request, "Cancel requested." if done.requested_at else "Job cancelled.")
    return redirect("job", place.account.name, job_id)


def find(place: Place, job_id: int) -> Job:
    """Return one of the account's jobs with its build and client. Raises Http404. One query."""
    own = Job.objects.select_related("build", "client").filter(account=place.account, pk=job_id)
    found = own.first()
    if found is None:
        raise Http404
    return found


def standing(job: Job) -> dict[str, Any]:
    """Return what is shown of a job as it stands: the part that changes while it waits and runs."""
    return {
        "job": job,
        "heading": labels.status_of(job),
        "waiting": job.is_waiting,
        "running": job.status == Status.RUNNING,
        "queue": place_of(job) if job.is_waiting else "",
        "log": (log_entries_of(job) or [])[-SHOWN_LINES:],
    }


def progress_beside(job: Job, runs: list[dict[str, Any]]) -> Progress:
    """Return a job's progress, in the stage that its runs show: Redis and the database differ for a moment."""
    found = progress_of(job)
    last = runs[-1]["run"] if runs else None
    if found.stage is None or last is None or last.attempt != job.attempt:
        return found
    return replace(found, stage=replace(found.stage, current=last.stage))


def runs_of(job: Job) -> list[dict[str, Any]]:
    """Return a job's simulator processes, with their ends in words. One query."""
    found = Run.objects.filter(job=job).order_by("attempt", "stage", "shard")
    return [
        {
            "run": run,
            "end": labels.end_of(run),
            "layers": labels.layers_of(run),
            "wall": seconds(run.wall_ms),
            "cpu": seconds(run.cpu_ms),
        }
        for run in found
    ]


def seconds(milliseconds: int | None) -> float | None:
    """Return milliseconds as seconds."""
    return None if milliseconds is None else milliseconds / 1000


def events_of(job: Job) -> list[dict[str, Any]]:
    """Return what happened to a job, in words. One query."""
    found = JobEvent.objects.filter(job=job).order_by("id")
    return [{"at": event.at, "told": labels.event(event)} for event in found[:SHOWN_EVENTS]]
