"""“Run the other …” on the page of a stopped job."""

from typing import Any

import pytest

from clients import form_tokens
from clients.accounts import default_client
from clients.models import Membership
from dashboard.jobs import job_form, run_rest
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job, JobProfile
from jobs.submission import remaining
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.job_pages import job_path
from tests.dashboard.summaries import summary
from tests.factories import make_member, make_running_job

pytestmark = pytest.mark.django_db
TEXT = 'mage="A"\n' + "".join(f'profileset."set {number}"+=level=7{number}\n' for number in range(5))
MISSED = "{} profilesets were not simulated."


def stopped_job(member: Membership, *, text: str = TEXT, missing: int = 3, **fields: Any) -> Job:
    """Return a cancelled job that simulated two of five variants."""
    job = make_running_job(client=default_client(member.account), text=text, **fields)
    partial = summary("set 1", "set 3") | {
        "partial": True,
        "not_reached": {"actors": 0, "profilesets": missing},
    }
    reason = f"The job was cancelled while running. The simulation time used is billed. {MISSED.format(missing)}"
    ended = Outcome(
        status=Status.CANCELLED, error_code="user_cancelled", reason=reason, summary=partial, percent=14.2,
        sim_duration_ms=1300, credits_consumed=320,
    )  # fmt: skip
    assert job_moves.finish(job, ended)
    return Job.objects.get(pk=job.pk)


def press(member: Membership, job: Job, *, form: str | None = None) -> Any:
    """Press the button, by default on a fresh page."""
    token = form_tokens.issue(member.user_id, job_form.PURPOSE) if form is None else form
    return browser_of(member).post(f"{job_path(job)}/rest", {"form": token}, follow=True)


def others(job: Job) -> list[Job]:
    return list(Job.objects.exclude(pk=job.pk))


def test_exactly_the_missing_variants_are_submitted(owner: Membership) -> None:
    job = stopped_job(owner, csv=True, metadata={"title": "Vault"})
    response = press(owner, job)
    (new,) = others(job)
    assert response.redirect_chain[-1][0] == job_path(new)
    text = JobProfile.objects.get(pk=new.pk).text
    assert [number for number in range(5) if f"set {number}" in text] == [0, 2, 4]
    assert (new.csv, new.client_id, new.metadata, new.status) == (True, job.client_id, {"title": "Vault"}, "queued")


def test_a_double_click_submits_once(owner: Membership) -> None:
    job, token = stopped_job(owner), form_tokens.issue(owner.user_id, job_form.PURPOSE)
    press(owner, job, form=token)
    assert run_rest.ALREADY_SUBMITTED in text_of(press(owner, job, form=token))
    assert len(others(job)) == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"text": f"input=other.simc\n{TEXT}"}, remaining.INCLUDES),
        ({"missing": 4}, remaining.UNCLEAR),
        ({"has_credentials": True}, remaining.CREDENTIALS),
    ],
)
def test_what_cannot_run_alone_is_explained(owner: Membership, fields: dict[str, Any], expected: str) -> None:
    job = stopped_job(owner, **fields)
    assert expected in text_of(press(owner, job))
    assert others(job) == []


def test_a_removed_profile_is_explained(owner: Membership) -> None:
    job = stopped_job(owner)
    JobProfile.objects.filter(pk=job.pk).delete()
    assert "The profile of this job is no longer available" in text_of(press(owner, job))
    assert others(job) == []


def test_checks_of_submissions_apply(owner: Membership) -> None:
    job = stopped_job(owner)
    owner.account.plan.max_variants = 2
    owner.account.plan.save()
    assert "variants" in text_of(press(owner, job))
    assert "Submit it again" in text_of(press(owner, job, form="forged"))
    assert others(job) == []


def test_viewers_and_strangers_cannot_submit(owner: Membership) -> None:
    job, viewer = stopped_job(owner), make_member(owner.account, role="viewer")
    assert press(viewer, job).status_code == 403
    assert press(make_member(), job).status_code == 404
    assert others(job) == []
