"""“Run this again”, for an own job and for the job of a share link."""

import io
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as HttpClient
from django.utils import timezone

from clients.accounts import default_client
from clients.models import Membership
from jobs.artifacts import artifact_files
from jobs.enums import Priority
from jobs.models import Artifact, Job
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.summaries import make_completed_job
from tests.factories import BuildFactory, make_account, make_client, make_job, make_member

pytestmark = pytest.mark.django_db
TEXT = 'mage="Shared"\n'
SECRETS = ("a secret", "an own title", "private-bot")


@pytest.fixture
def member() -> Membership:
    return make_member(role="member")


def shared_job(**fields: Any) -> Job:
    """Return a completed job of another account with a public input and private options."""
    client = make_client(make_account(), "private-bot")
    metadata = {"note": "a secret", "title": "an own title"}
    job = make_completed_job(
        client=client, text=TEXT, metadata=metadata, multi_stage=True, csv=True, priority=Priority.HIGH,
        channel="weekly", max_credits=640, pinned_build=BuildFactory.create(), **fields,
    )  # fmt: skip
    artifact_files.store(job, Artifact.Kind.INPUT, io.BytesIO(TEXT.encode())).save(force_insert=True)
    return job


def run(http: HttpClient, job: Job, **options: Any) -> Any:
    return http.get(f"/share/{job.share_token}/run", **options)


def expire(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(days=365))


def test_a_shared_job_fills_in_the_form(member: Membership) -> None:
    response = run(browser_of(member), shared_job(), follow=True)
    assert response.redirect_chain[0][0].startswith(f"/dashboard/{member.account}/jobs/new?shared=")
    assert response.context["form"].initial == {
        "profile": TEXT, "branch": "midnight", "stages": "on", "html": False, "csv": True, "json_version": 2,
    }  # fmt: skip


def test_a_shared_job_reveals_nothing_private(member: Membership) -> None:
    job = shared_job()
    page = run(browser_of(member), job, follow=True).content.decode()
    for secret in (*SECRETS, job.account.name, str(job.pk), "640", str(job.pinned_build_id)):
        assert secret not in page, secret


def test_a_stranger_logs_in_first_and_returns(member: Membership) -> None:
    job, http = shared_job(), HttpClient()
    asked = run(http, job)
    assert asked.headers["Location"] == f"/accounts/login/?next=/share/{job.share_token}/run"
    assert (
        f"/accounts/signup/?next=%2Fshare%2F{job.share_token}%2Frun"
        in http.get(asked.headers["Location"]).content.decode()
    )
    http.force_login(member.user)
    assert run(http, job).headers["Location"].startswith(f"/dashboard/{member.account}/jobs/new")


def test_several_accounts_are_a_choice(member: Membership) -> None:
    other, viewed = make_account(), make_account()
    Membership.objects.create(user=member.user, account=other, role="owner")
    Membership.objects.create(user=member.user, account=viewed, role="viewer")
    page = run(browser_of(member), shared_job()).content.decode()
    for account, is_offered in ((member.account, True), (other, True), (viewed, False)):
        assert (f"/dashboard/{account}/jobs/new?shared=" in page) == is_offered


def test_a_viewer_is_told_why_not() -> None:
    assert "Viewers cannot submit jobs" in text_of(run(browser_of(make_member(role="viewer")), shared_job()))


def test_a_user_without_an_account_is_told_so(member: Membership) -> None:
    http = browser_of(member)
    member.delete()
    assert "not a member of any account" in text_of(run(http, shared_job()))


@pytest.mark.parametrize("name", ["unknown", "expired"])
def test_a_link_without_a_job_is_explained(member: Membership, name: str) -> None:
    job = shared_job()
    expire(job) if name == "expired" else Job.objects.filter(pk=job.pk).update(share_token="y" * 22)
    response = run(browser_of(member), job)
    assert response.status_code == 404
    assert "The link does not exist, or its job has expired." in text_of(response)


@pytest.mark.parametrize("name", ["waiting", "no-input", "credentials"])
def test_a_profile_that_the_link_does_not_show_stays_private(member: Membership, name: str) -> None:
    make = {
        "waiting": lambda: make_job(text=TEXT),
        "no-input": lambda: make_completed_job(text=TEXT),
        "credentials": lambda: shared_job(has_credentials=True),
    }
    job, http = make[name](), browser_of(member)
    response = run(http, job)
    assert response.status_code == 404
    assert "is not public" in text_of(response)
    form = http.get(f"/dashboard/{member.account}/jobs/new", {"shared": job.share_token})
    assert form.status_code == 404


@pytest.mark.parametrize("token", ["x", "x" * 22, "\x00"], ids=["short", "unknown", "nul"])
def test_a_form_for_an_unknown_link_does_not_exist(member: Membership, token: str) -> None:
    path = f"/dashboard/{member.account}/jobs/new"
    assert browser_of(member).get(path, {"shared": token}).status_code == 404


def test_only_the_share_page_of_a_public_profile_offers_it() -> None:
    for job, is_offered in ((shared_job(), True), (make_job(), False), (shared_job(has_credentials=True), False)):
        page = HttpClient().get(f"/share/{job.share_token}").content.decode()
        assert (f"/share/{job.share_token}/run" in page) == is_offered


def test_a_job_of_the_account_runs_again_with_all_its_values(member: Membership) -> None:
    job = make_job(default_client(member.account), text=TEXT, metadata={"raid": "a"})
    response = browser_of(member).get(f"/dashboard/{member.account}/jobs/{job.pk}/run", follow=True)
    assert response.redirect_chain == [(f"/dashboard/{member.account}/jobs/new?again={job.pk}", 302)]
    assert response.context["form"].initial.items() >= {"profile": TEXT, "metadata": "raid: a"}.items()


def test_an_expired_job_of_the_account_is_explained(member: Membership) -> None:
    job = make_completed_job(client=default_client(member.account))
    expire(job)
    response = browser_of(member).get(f"/dashboard/{member.account}/jobs/{job.pk}/run", follow=True)
    assert response.redirect_chain[0][0] == f"/dashboard/{member.account}/jobs/{job.pk}"
    assert "no longer available" in text_of(response)
