"""The page of one job, its cancellation, its title and its public links."""

from dataclasses import replace
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from clients.members import Role
from dashboard import results
from dashboard.access import AccountAccess, account_page
from dashboard.jobs import preview
from dashboard.jobs.files import files_of, missing_files_of
from dashboard.jobs.sharing import queue_position
from dashboard.results import ranking_csv
from dashboard.results.timeline import timeline_of
from jobs.api.links import LinkBuilder
from jobs.artifacts import retention
from jobs.enums import Status
from jobs.errors import JobAlreadyEnded
from jobs.lifecycle import cancellation
from jobs.live.progress import Progress, log_entries_of, progress_of
from jobs.models import TITLE_LENGTH, Job, JobEvent, Run
from jobs.results import edits, labels
from simservice.postgresql.connections import snapshot

MAX_EVENTS = 100
# More runs of a job that has ended are folded.
OPEN_RUNS = 10
MAX_RUNS = 200
MAX_LOG_LINES = 12


class TitleForm(forms.Form):
    """A new title; an empty one restores the default."""

    title = forms.CharField(required=False, max_length=TITLE_LENGTH)


@account_page()
def job(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    """Show a job. Return only the content for htmx requests."""
    options = results.Options.of(request.GET)
    with snapshot():
        job = _find_job(access, job_id)
        files, (runs, has_more_runs) = files_of(job), _runs_of(job)
        events = list(JobEvent.objects.filter(job=job).order_by("id")[:MAX_EVENTS])
        result = results.load(job, options)
    progress = _progress_in(job, runs)
    share = LinkBuilder.for_request(request).of(job)["share"] if retention.is_kept(job) else None
    layers = {entry["layers"] for entry in runs if entry["run"].ended_at is not None}
    context = {
        "job": job,
        "heading": labels.status_of(job),
        "waiting": job.is_waiting,
        "running": job.status == Status.RUNNING,
        "queue": queue_position(job) if job.is_waiting else "",
        "log": (log_entries_of(job) or [])[-MAX_LOG_LINES:],
        "live": preview.live_of(job),
        "milestone": preview.milestone(labels.status_of(job), progress, is_running=job.status == Status.RUNNING),
        "section": "jobs",
        "layout": "part.html" if "HX-Request" in request.headers else "dashboard/jobs_base.html",
        "progress": progress,
        "result": result,
        "timeline": timeline_of([entry["run"] for entry in runs]) if result else None,
        "advice": labels.advice(job, [entry["run"] for entry in runs]),
        "simulated": _seconds(job.sim_duration_ms),
        "priority": labels.priority_of(job),
        "files": files,
        "missing_files": missing_files_of(job),
        "runs": runs,
        "folds_runs": job.is_terminal and len(runs) > OPEN_RUNS,
        # The page names the layers once if they are the same in all runs.
        "sandbox": layers.pop() if len(layers) == 1 else None,
        "has_shards": any(entry["run"].shard or entry["run"].try_number > 1 for entry in runs),
        "has_more_runs": has_more_runs,
        "events": [{"at": event.at, "label": labels.event(event)} for event in events],
        "max_title_length": TITLE_LENGTH,
        "is_kept": retention.is_kept(job),
        "kept_until": retention.kept_until(job),
        "share": share,
        "shared_view": options.added_to(share) if share else None,
        "ranking_table": options.baseline_of(reverse("ranking", args=(access.account.name, job.pk))),
    }
    return render(request, "dashboard/job.html", context)


@account_page()
def ranking(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    """Return the ranking of a job as CSV. Raises Http404 without a result."""
    with snapshot():
        job = _find_job(access, job_id)
        compared = ranking_csv.compared_of(job, results.Options.of(request.GET))
    if compared is None:
        raise Http404
    return ranking_csv.response_of(job, compared)


@account_page(post=Role.MEMBER, get=False)
def cancel(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    job = _find_job(access, job_id)
    try:
        done = cancellation.cancel(job, by=access.actor)
    except JobAlreadyEnded:
        messages.error(request, "The job has already ended.")
    else:
        # The message stays while the page refreshes, so it must still be true when the job has ended.
        messages.success(request, "Cancellation requested." if done.requested_at else "Job cancelled.")
    return redirect("job", access.account.name, job_id)


@account_page(post=Role.MEMBER, get=False)
def rename(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    job, form = _find_job(access, job_id), TitleForm(request.POST)
    if form.is_valid():
        edits.rename(job, form.cleaned_data["title"], by=access.actor)
        messages.success(request, "Title saved.")
    else:
        messages.error(request, f"The title was not saved. {' '.join(map(str, form.errors['title']))}")
    return redirect("job", access.account.name, job_id)


@account_page(post=Role.MEMBER, get=False)
def replace_links(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    """Replace the share link of a job and the links to its files."""
    edits.replace_links(_find_job(access, job_id), by=access.actor)
    messages.success(request, "Links replaced. The earlier links no longer work.")
    return redirect("job", access.account.name, job_id)


def _find_job(access: AccountAccess, job_id: int) -> Job:
    """Return one of the account's jobs with its build and client. Raises Http404."""
    return get_object_or_404(Job.objects.select_related("build", "client"), account=access.account, pk=job_id)


def _progress_in(job: Job, runs: list[dict[str, Any]]) -> Progress:
    """Return a job's progress with the stage of its last run: Redis may lag behind the database."""
    progress = progress_of(job)
    last = runs[-1]["run"] if runs else None
    if progress.stage is None or last is None or last.attempt != job.attempt:
        return progress
    return replace(progress, stage=replace(progress.stage, current=last.stage))


def _runs_of(job: Job) -> tuple[list[dict[str, Any]], bool]:
    """Return the last simulator processes of a job, with their labels, and whether there are more.

    They are at most MAX_RUNS, sorted by attempt, stage, shard and try.
    """
    newest = list(Run.objects.filter(job=job).order_by("-id")[: MAX_RUNS + 1])
    runs = sorted(newest[:MAX_RUNS], key=lambda run: (run.attempt, run.stage, run.shard, run.try_number))
    listed = [
        {
            "run": run,
            "end": labels.end_of(run),
            "layers": labels.layers_of(run),
            "wall": _seconds(run.wall_ms),
            "cpu": _seconds(run.cpu_ms),
        }
        for run in runs
    ]
    return listed, len(newest) > MAX_RUNS


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
