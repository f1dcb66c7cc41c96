"""One job's page: how it stands, what it did, what it found; and its cancel."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from clients.members import Role
from dashboard import results
from dashboard.access import Place, account_page
from dashboard.files import files_of, missing_files_of
from dashboard.sharing import place_of
from jobs import cancellation, retention, wording
from jobs.links import Links
from jobs.models import WAITING, Job, JobEvent, Run, Status
from jobs.progress import log_entries_of, progress_of
from simservice.api.errors import JobNotCancellable

SHOWN_EVENTS = 100
SHOWN_LINES = 12


@account_page()
def job(request: HttpRequest, place: Place, job_id: int) -> HttpResponse:
    """Show a job."""
    found = find(place, job_id)
    context = {
        **standing(found),
        "section": "jobs",
        "shown": results.shown(found, search=request.GET.get("q", ""), with_gear=True),
        "advice": wording.ADVICE.get(found.error_code or ""),
        "simulated": seconds(found.sim_duration_ms),
        "priority": wording.priority_of(found),
        "files": files_of(found),
        "missing_files": missing_files_of(found),
        "runs": runs_of(found),
        "events": events_of(found),
        "share": Links.for_request(request).of(found)["share"] if retention.is_kept(found) else None,
    }
    return render(request, "dashboard/job.html", context)


@account_page()
def live(request: HttpRequest, place: Place, job_id: int) -> HttpResponse:
    """Answer with the part of a job's page that changes; once the job has ended, with a call for all of it."""
    found = find(place, job_id)
    if found.is_terminal:
        return HttpResponse(headers={"HX-Refresh": "true"})
    return render(request, "dashboard/job_live.html", standing(found))


@account_page(post=Role.MEMBER, get=False)
def cancel(request: HttpRequest, place: Place, job_id: int) -> HttpResponse:
    """Cancel a job."""
    found = find(place, job_id)
    try:
        done = cancellation.cancel(found, by=place.actor)
    except JobNotCancellable:
        messages.error(request, "The job has ended already.")
    else:
        told = "is being stopped" if done.requested_at else "is cancelled"
        messages.success(request, f"The job {told}.")
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
        "heading": wording.status_of(job),
        "waiting": job.status in WAITING,
        "running": job.status == Status.RUNNING,
        "queue": place_of(job) if job.status in WAITING else "",
        "progress": progress_of(job),
        "log": (log_entries_of(job) or [])[-SHOWN_LINES:],
    }


def runs_of(job: Job) -> list[dict[str, Any]]:
    """Return a job's simulator processes, with their ends in words. One query."""
    found = Run.objects.filter(job=job).order_by("attempt", "stage", "shard")
    return [
        {
            "run": run,
            "end": wording.end_of(run),
            "layers": wording.layers_of(run),
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
    return [{"at": event.at, "told": wording.event(event)} for event in found[:SHOWN_EVENTS]]
