"""The page of one job in four parts, its cancellation and pauses, its title and its public links."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse

from clients import form_tokens
from clients.members import Role
from dashboard import results
from dashboard.access import AccountAccess, account_page
from dashboard.jobs import preview, profile_text
from dashboard.jobs.files import files_of, missing_files_of
from dashboard.jobs.job_form import PURPOSE
from dashboard.jobs.profile_text import Excerpt
from dashboard.jobs.sharing import queue_position
from dashboard.results import ranking_csv
from dashboard.results.timeline import timeline_of
from jobs.api.links import LinkBuilder
from jobs.artifacts import retention
from jobs.enums import Status
from jobs.errors import CreditsMissing, JobAlreadyEnded, JobsError
from jobs.lifecycle import cancellation
from jobs.live.progress import Progress, log_entries_of, progress_of
from jobs.models import TITLE_LENGTH, Job, JobEvent, JobProfile, Run
from jobs.queue import pausing
from jobs.results import edits, endings, labels
from jobs.submission import remaining
from simc.profiles.includes import SourceLine
from simservice.api.exception_handler import as_api_error
from simservice.postgresql.connections import snapshot

MAX_EVENTS = 100
# More runs of a job that has ended are folded.
OPEN_RUNS = 10
MAX_RUNS = 200
MAX_LOG_LINES = 12
LINKS = (("job", "Result"), ("job_profile", "Profile"), ("job_log", "Run log"), ("job_files", "Files"))
# The route of each part
PARTS = {"result": "job", "profile": "job_profile", "log": "job_log", "files": "job_files"}


class TitleForm(forms.Form):
    """A new title; an empty one restores the default."""

    title = forms.CharField(required=False, max_length=TITLE_LENGTH)


@account_page()
def job(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    """Show a job's result, or its progress. Return only the content for htmx requests, as the other parts do."""
    options = results.Options.of(request.GET)
    with snapshot():
        job = _find_job(access, job_id)
        runs, _ = _runs_of(job)
        result = results.load(job, options)
        fault = _fault_of(job)
    progress = _progress_in(job, runs)
    ending = endings.ending_of(job, reason=job.status_reason or "", credits_billed=job.credits_consumed)
    context = {
        "waiting": job.is_waiting,
        "running": job.status == Status.RUNNING,
        "queue": queue_position(job) if job.is_waiting else "",
        "live": preview.live_of(job, progress),
        "milestone": preview.milestone(labels.status_of(job), progress, is_running=job.status == Status.RUNNING),
        "progress": progress,
        "result": result,
        "ranking_table": options.baseline_of(reverse("ranking", args=(access.account.name, job.pk))),
        "ending": ending,
        "fault": fault,
        "rest_problem": remaining.CREDENTIALS if job.has_credentials else "",
        "token": form_tokens.issue(access.user.pk, PURPOSE) if ending and ending.missed else "",
        "advice": labels.advice(job, [entry["run"] for entry in runs]),
    }
    return _part(request, job, "result", context)


@account_page()
def profile(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    """Show the profile of a job, a page of its lines at a time."""
    job = _find_job(access, job_id)
    text = _profile_of(job)
    marked = SourceLine.in_profile(job.status_reason or "")
    first = int(request.GET["from"]) if re.fullmatch("[0-9]{1,7}", request.GET.get("from", "")) else None
    page = None if text is None else profile_text.page_of(text, first=first, marked=marked)
    return _part(request, job, "profile", {"page": page})


@account_page()
def run_log(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    """Show how a job ran: its history, its simulator processes and its limits."""
    with snapshot():
        job = _find_job(access, job_id)
        runs, has_more_runs = _runs_of(job)
        events = list(JobEvent.objects.filter(job=job).order_by("id")[:MAX_EVENTS])
    layers = {entry["layers"] for entry in runs if entry["run"].ended_at is not None}
    context = {
        "log": (log_entries_of(job) or [])[-MAX_LOG_LINES:],
        "running": job.status == Status.RUNNING,
        "timeline": timeline_of([entry["run"] for entry in runs]) if job.has_result else None,
        "simulated": _seconds(job.sim_duration_ms),
        "priority": labels.priority_of(job),
        "runs": runs,
        "folds_runs": job.is_terminal and len(runs) > OPEN_RUNS,
        # The page names the layers once if they are the same in all runs.
        "sandbox": layers.pop() if len(layers) == 1 else None,
        "has_shards": any(entry["run"].shard or entry["run"].try_number > 1 for entry in runs),
        "has_more_runs": has_more_runs,
        "events": [{"at": event.at, "label": labels.event(event)} for event in events],
    }
    return _part(request, job, "log", context)


@account_page()
def job_files(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    """Show the files of a job."""
    with snapshot():
        job = _find_job(access, job_id)
        files = files_of(job)
    context = {"files": files, "missing_files": missing_files_of(job)}
    return _part(request, job, "files", context)


def _part(request: HttpRequest, job: Job, part: str, context: dict[str, Any]) -> HttpResponse:
    """Render one part of a job's page with its title, its actions and the links to the other parts."""
    is_kept = retention.is_kept(job)
    share = LinkBuilder.for_request(request).of(job)["share"] if is_kept else None
    context |= {
        "job": job,
        "heading": labels.status_of(job),
        "section": "jobs",
        "layout": "part.html" if "HX-Request" in request.headers else "dashboard/jobs_base.html",
        "parts": [(view, label, view == PARTS[part]) for view, label in LINKS],
        "max_title_length": TITLE_LENGTH,
        "is_kept": is_kept,
        "kept_until": retention.kept_until(job),
        "kept_days": retention.days_of(job),
        "share": share,
        "shared_view": results.Options.of(request.GET).added_to(share) if share else None,
    }
    return render(request, f"dashboard/job/{part}.html", context)


def _profile_of(job: Job) -> str | None:
    """Return the profile of a job, or None if it was removed."""
    if not retention.is_kept(job):
        return None
    return JobProfile.objects.filter(pk=job.pk).values_list("text", flat=True).first()


def _fault_of(job: Job) -> Excerpt | None:
    """Return the line of the profile that a job's reason is about, with lines around it. At most one query."""
    line = SourceLine.in_profile(job.status_reason or "") if job.is_terminal else None
    text = _profile_of(job) if line is not None else None
    return None if line is None or text is None else profile_text.around(text, line)


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
        # The page says that the job is stopping, then how it ended. A message would stay beside both.
        cancellation.cancel(job, by=access.actor)
    except JobAlreadyEnded:
        messages.error(request, "The job has already ended.")
    return redirect("job", access.account.name, job_id)


@account_page(post=Role.MEMBER, get=False)
def pause(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    return _change_pause(request, access, job_id, pausing.pause)


@account_page(post=Role.MEMBER, get=False)
def resume(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    return _change_pause(request, access, job_id, pausing.resume)


def _change_pause(
    request: HttpRequest, access: AccountAccess, job_id: int, change: Callable[..., Job]
) -> HttpResponse:
    """Pause or resume a job. The page then shows its state; a message says why that was refused."""
    job = _find_job(access, job_id)
    try:
        change(job, by=access.actor)
    except CreditsMissing as error:
        lacking = error.required_credits - error.affordable_credits
        messages.error(
            request, f"The account needs {lacking:,} more credit{pluralize(lacking)} to resume this job."
        )
    except JobsError as error:
        messages.error(request, as_api_error(error).message)
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


@account_page(post=Role.MEMBER, get=False)
def change_sharing(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    """Choose whether the share link of a job shows its profile and logs."""
    shown = request.POST.get("shares_inputs") == "on"
    edits.set_shares_inputs(_find_job(access, job_id), shown=shown, by=access.actor)
    messages.success(
        request, f"The share link {'now shows' if shown else 'no longer shows'} the profile and the logs."
    )
    return redirect("job", access.account.name, job_id)


def _find_job(access: AccountAccess, job_id: int) -> Job:
    """Return one of the account's jobs with its build, client and account. Raises Http404."""
    found = get_object_or_404(Job.objects.select_related("build", "client"), account=access.account, pk=job_id)
    found.account = access.account
    return found


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
