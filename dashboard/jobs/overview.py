"""Overview of an account, and the redirect to it."""

from datetime import UTC
from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from billing import ledger, pace, prices
from billing.models import Account
from clients import accounts
from dashboard.access import AccountAccess, account_page
from dashboard.context import Navigation
from dashboard.jobs import attention, first_steps, job_list
from dashboard.results.day_charts import bars_by_day
from jobs import registry
from jobs.enums import Priority, PublicStatus
from jobs.lifecycle import usage
from jobs.live.progress import percents_of
from jobs.models import Job
from jobs.queue import forecast
from jobs.results import labels
from jobs.submission import shortage
from webhooks import endpoints

DAYS = 30
RECENT = 5
# A queue in which a new job starts later than this is shown.
SOON_SECONDS = 60


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def choose(request: HttpRequest) -> HttpResponse:
    """Redirect to the user's last or first account, or offer to open one if sign-up is allowed."""
    user = cast(User, request.user)
    if request.method == "POST" and settings.ALLOW_SIGNUP:
        account = accounts.open_own_account(user)
        messages.success(request, f"Account {account} created.")
        return redirect("overview", account.name)
    access = Navigation(request).access
    if access is not None:
        return redirect("overview", access.account.name)
    return render(request, "dashboard/no_account.html", {"may_open": settings.ALLOW_SIGNUP})


@account_page()
def overview(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Show what needs attention, what runs and how long the credits last; then recent jobs, usage and the queue."""
    account, navigation = access.account, Navigation(request)
    navigation.remember_account()
    days = usage.last_days(account, count=DAYS)
    builds, balances, snapshot = registry.current(), ledger.balances(account), forecast.current()
    lanes = lanes_of(snapshot) if snapshot else []
    charges, today = [(day.day, day.credits) for day in days], timezone.now().astimezone(UTC).date()
    lasting, unfinished = pace.pace_of(charges, balances, today=today), usage.snapshot(account)
    troubled = list(endpoints.troubled(account))
    context = {
        "section": "overview",
        "navigation": navigation,
        "first_steps": first_steps.checklist(request, access, builds),
        "shortage": shortage.find(account, balances=balances),
        "attention": [
            *attention.of_service(has_builds=bool(builds), snapshot=snapshot),
            *attention.of_credits(account, balances, pace=lasting),
            *attention.of_webhooks(account, (one for one in troubled if one.disabled_at is None)),
        ],
        "switched_off": [one for one in troubled if one.disabled_at],
        "unfinished": unfinished,
        "running": running_jobs(account, snapshot) if unfinished.active else [],
        "recent": job_list.newest_ended(account, count=RECENT),
        "balances": balances,
        "simulation": labels.duration(
            prices.seconds_for(balances.available, credits_per_second=account.plan.credits_per_second)
        ),
        "pace": lasting,
        "days": days,
        "jobs_by_day": bars_by_day([(day.day, day.jobs) for day in days]),
        "credits_by_day": bars_by_day(charges),
        "builds": builds,
        "several_branches": len(settings.GIT_BRANCHES) > 1,
        "lanes": lanes,
        "is_queue_unusual": not lanes or any(lane["waits"] for lane in lanes),
    }
    return render(request, "dashboard/overview.html", context)


def running_jobs(account: Account, snapshot: forecast.QueueSnapshot | None) -> list[dict[str, Any]]:
    """Return the newest unfinished jobs with their progress in percent, or the expected start of a waiting job.

    One query and one request to Redis.
    """
    jobs = job_list.unfinished(account, count=RECENT)
    return [
        {
            "job": job,
            "percent": percent if job.public_status == PublicStatus.RUNNING else None,
            "start": _start_of(job, snapshot),
        }
        for job, percent in zip(jobs, percents_of(jobs), strict=True)
    ]


def _start_of(job: Job, snapshot: forecast.QueueSnapshot | None) -> str:
    if job.public_status == PublicStatus.RUNNING:
        return ""
    if job.is_paused:
        return labels.status_of(job)
    if snapshot and snapshot.is_paused(job):
        return "Paused by the operator"
    seconds = snapshot.position_of(job).seconds if snapshot else None
    return "Start unknown" if seconds is None else f"Starts {labels.soon(seconds)}"


def lanes_of(snapshot: forecast.QueueSnapshot) -> list[dict[str, Any]]:
    """Return the state of the queue by priority. A lane `waits` if a new job would not start within a minute."""
    starts = {priority: snapshot.position_of_new(priority).seconds for priority in Priority}
    return [
        {
            "name": priority.label,
            "waiting": snapshot.waiting[priority.api_name],
            "start": _lane_start(seconds, is_paused=priority in snapshot.paused),
            "is_paused": priority in snapshot.paused,
            "waits": seconds is None or seconds >= SOON_SECONDS,
        }
        for priority, seconds in starts.items()
    ]


def _lane_start(seconds: int | None, *, is_paused: bool) -> str:
    if is_paused:
        return "paused by the operator"
    return "unknown" if seconds is None else labels.soon(seconds)
