"""First steps of a new account: a checklist on its overview, until they are done or the member hides it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from clients import accounts, form_tokens, rate_limits
from clients.errors import FormAlreadySent, InvalidFormToken
from clients.members import Role
from dashboard.access import AccountAccess, account_page
from dashboard.jobs import job_form
from dashboard.jobs.job_form_errors import message_of
from jobs.enums import Channel
from jobs.errors import JobsError
from jobs.models import Build, Job
from jobs.submission import accept, first_steps
from jobs.submission.accept import Accepted
from jobs.submission.validation import Sender
from simservice.api.addresses import api_url
from simservice.api.errors import ApiError
from simservice.api.exception_handler import as_api_error

NO_BUILD = "The sample cannot run because no build is registered. Ask the operator of this service to register one."


@dataclass(frozen=True, kw_only=True)
class Checklist:
    """The steps with their states. `token` is for the form that runs the sample, `address` is that of the API."""

    done: first_steps.Done
    has_build: bool
    token: str
    address: str


def checklist(
    request: HttpRequest, access: AccountAccess, builds: Iterable[tuple[Channel, Build]]
) -> Checklist | None:
    """Return the checklist, or None if all steps are done or the member hid it. At most one query.

    `builds` are the current builds of all channels.
    """
    if access.membership.hides_first_steps:
        return None
    done = first_steps.done_by(access.account)
    if all(done):
        return None
    return Checklist(
        done=done,
        has_build=any(first_steps.runs_sample(channel, build) for channel, build in builds),
        token=form_tokens.issue(access.user.pk, job_form.PURPOSE),
        address=api_url(request),
    )


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
        messages.error(request, message_of(as_api_error(error)))
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
    one_form = job_form.ByFormToken(form=request.POST.get("form", ""), user_id=access.user.pk)
    submission = first_steps.sample_submission()
    # A repeated form raises an error instead of a replay.
    accepted = cast(Accepted, accept.submit(submission, sender=Sender(client), once=one_form))
    return accepted.job


@account_page(post=Role.VIEWER, get=False)
def hide(request: HttpRequest, access: AccountAccess) -> HttpResponse:  # noqa: ARG001
    """Hide the checklist from this member."""
    access.membership.hides_first_steps = True
    access.membership.save(update_fields=["hides_first_steps"])
    return redirect("overview", access.account.name)
