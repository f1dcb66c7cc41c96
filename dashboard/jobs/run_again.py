"""“Run this again”: the job form filled in from an earlier job, one's own or that of a share link."""

import re
from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from clients import members
from clients.members import Role
from clients.rate_limits import limited_by_address
from dashboard.access import AccountAccess, account_page
from dashboard.jobs.fight_controls import AUTOMATIC, SINGLE_PASS, STAGES
from jobs import api_mode
from jobs.enums import Priority
from jobs.errors import NotFound, ProfilePrivate
from jobs.models import Job
from jobs.planning import multistage
from jobs.results import queries
from simservice.ids import TokenConverter

GONE = "The profile of this job is no longer available, so the job cannot be run again."
UNKNOWN_LINK = "The link does not exist, or its job has expired. Jobs and their profiles are kept for {days} days."
PRIVATE = (
    "The profile of this job is not public: the job has not run yet, it used game credentials, or its account does "
    "not share profiles."
)


@account_page()
def run_again(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    """Redirect to the job form with the values of one of the account's jobs. Raises Http404."""
    if not Job.objects.filter(account=access.account, pk=job_id).exists():
        raise Http404
    try:
        queries.profile_of(access.account, f"{job_id}")
    except NotFound:
        messages.error(request, GONE)
        return redirect("job", access.account.name, job_id)
    return redirect(_form_path(access.account.name, again=str(job_id)))


@limited_by_address
@login_required
@require_safe
def run_shared(request: HttpRequest, token: str) -> HttpResponse:
    """Redirect to the job form with the profile of a share link; offer a choice of several accounts."""
    try:
        queries.shared_profile(token)
    except (NotFound, ProfilePrivate) as error:
        unknown = UNKNOWN_LINK.format(days=settings.RETENTION_DAYS)
        problem = PRIVATE if isinstance(error, ProfilePrivate) else unknown
        return render(request, "dashboard/run_shared.html", {"problem": problem}, status=404)
    memberships = list(members.memberships_of(cast(User, request.user))[: members.MAX_LISTED])
    may_submit = [each for each in memberships if members.ranks_at_least(each.role, Role.MEMBER)]
    if len(may_submit) == 1:
        return redirect(_form_path(may_submit[0].account.name, shared=token))
    choices = [(each.account.name, _form_path(each.account.name, shared=token)) for each in may_submit]
    return render(request, "dashboard/run_shared.html", {"choices": choices, "is_viewer": bool(memberships)})


def _form_path(account: str, **query: str) -> str:
    return f"{reverse('submit_job', args=[account])}?{urlencode(query)}"


def initial_values(request: HttpRequest, access: AccountAccess) -> dict[str, Any]:
    """Return the initial values of the job form: those of the job in `again` or of the link in `shared`, if any.

    Raises Http404.
    """
    again, token = request.GET.get("again", ""), request.GET.get("shared", "")
    try:
        if again:
            return _own_values(queries.find_job(access.account, again), queries.profile_of(access.account, again))
        if token and not re.fullmatch(TokenConverter.regex, token):
            raise Http404
        return _public_values(*queries.shared_profile(token)) if token else {}
    except (NotFound, ProfilePrivate):
        raise Http404 from None


def _public_values(job: Job, profile: str) -> dict[str, Any]:
    """Return the form values that anyone with a job's share link can see."""
    return {
        "profile": profile,
        "branch": job.git_branch,
        "stages": _stages_of(job, profile),
        "html": job.html,
        "csv": job.csv,
        "json_version": job.json_version,
    }


def _stages_of(job: Job, profile: str) -> str:
    """Return the choice that runs a profile as the job did: automatic, unless that might run it in stages."""
    if job.multi_stage:
        return STAGES
    return SINGLE_PASS if profile.count("profileset.") >= multistage.MANY_VARIANTS else AUTOMATIC


def _own_values(job: Job, profile: str) -> dict[str, Any]:
    """Return the form values that submit a job again, without its game credentials."""
    in_credits = api_mode.current().cap_field == "maxCredits"
    cap = job.ceiling_credits if in_credits else job.ceiling_runtime_seconds
    return _public_values(job, profile) | {
        "client": job.client_id,
        "channel": job.channel,
        "build": str(job.pinned_build_id or ""),
        "priority": Priority(job.priority).api_name,
        "cap": None if job.max_credits is None else cap,
        "hide_inputs": not job.shares_inputs,
        "queue_seconds": job.ceiling_queue_seconds,
        "title": job.metadata.get("title", ""),
        "metadata": "\n".join(
            f"{name}: {' '.join(value.split())}" for name, value in job.metadata.items() if name != "title"
        ),
    }
