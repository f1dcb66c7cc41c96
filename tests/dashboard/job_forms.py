"""Helpers to fill in and submit the job form."""

from typing import Any

from clients import form_tokens
from clients.accounts import default_client
from clients.models import Membership
from dashboard.jobs import job_form
from tests.dashboard.browsing import browser_of
from tests.factories import PROFILE


def form_path(member: Membership) -> str:
    return f"/dashboard/{member.account}/jobs/new"


def form_data(member: Membership, **changed: Any) -> dict[str, Any]:
    """Return the data of a completed form."""
    data = {
        "form": form_tokens.issue(member.user.pk, job_form.PURPOSE),
        "client": default_client(member.account).pk,
        "profile": PROFILE.replace("\n", "\r\n"),
        "channel": "latest",
        "priority": "standard",
        "json_version": "2",
    }
    return data | changed


def submit(member: Membership, **changed: Any) -> Any:
    """Submit the form."""
    return browser_of(member).post(form_path(member), form_data(member, **changed))


def errors_of(response: Any) -> dict[str, str]:
    """Return the errors of a rejected form by field."""
    assert response.status_code == 200
    assert 'role="alert"' in response.content.decode()
    return {name: " ".join(errors) for name, errors in response.context["form"].errors.items()}
