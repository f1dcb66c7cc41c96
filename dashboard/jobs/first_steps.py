"""First steps of a new account: a checklist on its overview, until they are done or the member hides it."""

from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from clients import accounts, form_tokens, rate_limits
from clients.errors import FormAlreadySent, InvalidFormToken
from clients.members import Role
from dashboard.access import AccountAccess, account_page
from dashboard.jobs import job_form
from jobs.enums import Channel
from jobs.errors import JobsError
from jobs.models import Build, Job
from jobs.submission import first_steps
from simservice.api.addresses import api_url
from simservice.api.errors import ApiError
from simservice.api.exception_handler import as_api_error

NO_BUILD = "The sample cannot run because no build is registered. Ask the operator of this service to register one."


def checklist(
    request: HttpRequest, access: AccountAccess, builds: Iterable[tuple[Channel, Build]]
) -> dict[str, Any] | None:
    """Return the checklist, or None if all steps are done, the account has many jobs or the member hid it.

    `builds` are the current builds of all channels.
    """
    if access.membership.hides_first_steps:
        return None
    done = first_steps.done_by(access.account)
    if done is None or all(done):
        return None
    return {
        "done": done,
        "has_build": any(first_steps.runs_sample(channel, build) for channel, build in builds),
        "token": form_tokens.issue(access.user.pk, job_form.PURPOSE),
        "address": api_url(request),
    }


@account_page(post=Role.MEMBER, get=False)
def run_sample(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Submit the sample profile, and show its job."""
    try:
        job = _submit_sample(request, access)
    except FormAlreadySent:
        messages.info(request, "The sample was already submitted. Its job is in the job list.")
    except InvalidFormToken:
        messages.error(request, job_form.OLD_FORM)
    except (ApiError, JobsError) as error:
        messages.error(request, job_form.message_of(as_api_error(error)))
    else:
        if job is not None:
            messages.success(request, "Sample submitted. This page shows its progress, then its result.")
            return redirect("job", access.account.name, job.pk)
        messages.error(request, NO_BUILD)
    return redirect("overview", access.account.name)


def _submit_sample(request: HttpRequest, access: AccountAccess) -> Job | None:
    """Submit the sample; return its job, or None if there is no build.

    Raises an ApiError, a JobsError, FormAlreadySent or InvalidFormToken.
    """
    if not first_steps.can_run_sample():
        return None
    rate_limits.spend(request, rate_limits.submission_limit(access.account))
    client = accounts.default_client(access.account)
    client.account = access.account
    sample, form = first_steps.sample_submission(), request.POST.get("form", "")
    return job_form.submit_once(access, sample, client=client, form=form).job


@account_page(post=Role.VIEWER, get=False)
def hide(request: HttpRequest, access: AccountAccess) -> HttpResponse:  # noqa: ARG001
    """Hide the checklist from this member."""
    access.membership.hides_first_steps = True
    access.membership.save(update_fields=["hides_first_steps"])
    return redirect("overview", access.account.name)
