"""Overview of an account, and the redirect to it."""

from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from billing import ledger
from clients import accounts
from dashboard.access import AccountAccess, account_page
from dashboard.context import Navigation
from dashboard.jobs import first_steps, job_list
from dashboard.results.day_charts import bars_by_day
from jobs import registry
from jobs.enums import Priority
from jobs.lifecycle import usage
from jobs.queue import forecast
from jobs.results import labels
from webhooks import endpoints

DAYS = 30
RECENT = 5


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
    """Show credits, recent jobs, usage, the queue and builds."""
    navigation = Navigation(request)
    navigation.remember_account()
    days = usage.last_days(access.account, count=DAYS)
    builds = registry.current()
    context = {
        "section": "overview",
        "navigation": navigation,
        "first_steps": first_steps.checklist(request, access, builds),
        "balances": ledger.balances(access.account),
        "unfinished": usage.snapshot(access.account),
        "recent": job_list.newest(access.account, count=RECENT),
        "builds": builds,
        "several_branches": len(settings.GIT_BRANCHES) > 1,
        "lanes": lanes_of(snapshot) if (snapshot := forecast.current()) else [],
        "switched_off": endpoints.switched_off(access.account),
        "days": days,
        "jobs_by_day": bars_by_day([(day.day, day.jobs) for day in days]),
        "credits_by_day": bars_by_day([(day.day, day.credits) for day in days]),
    }
    return render(request, "dashboard/overview.html", context)


def lanes_of(snapshot: forecast.QueueSnapshot) -> list[dict[str, Any]]:
    """Return the state of the queue by priority."""
    return [
        {
            "name": priority.label,
            "waiting": snapshot.waiting[priority.api_name],
            "start": "unknown"
            if (seconds := snapshot.position_of_new(priority).seconds) is None
            else labels.soon(seconds),
        }
        for priority in Priority
    ]
