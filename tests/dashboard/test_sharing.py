"""What share links show of the profile and the logs, and how owners hide both."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client as Browser

from clients.accounts import default_client
from clients.models import AuditEvent, Membership
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job
from jobs.results.report_data import DataFile
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.job_forms import submit
from tests.dashboard.job_pages import share_html
from tests.dashboard.summaries import summary
from tests.factories import PROFILE, make_key, make_member, make_running_job
from tests.jobs.simulators import LEAVE_REPORT, make_stand_in, run

pytestmark = pytest.mark.django_db(transaction=True)

PRIVATE = {"input", "stdout_log", "stderr_log"}


@pytest.fixture
def job(owner: Membership, tmp_path: Path) -> Job:
    """A completed job with all its files."""
    make_stand_in(tmp_path, f"{LEAVE_REPORT}\nprint('out')\nprint('err', file=sys.stderr)")
    done = run(default_client(owner.account))
    kinds = set(Artifact.objects.filter(job=done).values_list("kind", flat=True))
    assert kinds == PRIVATE | {"json_report"}
    return done


def kinds_in_manifest(job: Job) -> set[str]:
    found = Browser().get(f"/manifests/{job.share_token}").json()
    return {artifact["kind"] for artifact in found["artifacts"]}


def change(owner: Membership, **fields: str) -> None:
    assert browser_of(owner).post(f"/dashboard/{owner.account}/data/sharing", fields).status_code == 302


def test_share_links_show_profile_and_logs_by_default(job: Job) -> None:
    page = share_html(job)
    assert kinds_in_manifest(job) == PRIVATE | {"json_report"}
    assert all(text in page for text in (">Input<", ">Output log<", ">Error log<", "Run this again"))


def test_an_owner_can_hide_profile_and_logs(job: Job, owner: Membership) -> None:
    change(owner)
    page = share_html(job)
    assert kinds_in_manifest(job) == {"json_report"}
    assert ">JSON report<" in page
    assert not any(text in page for text in (">Input<", ">Output log<", ">Error log<", "Run this again"))
    answer = browser_of(owner).get(f"/share/{job.share_token}/run")
    assert (answer.status_code, "its account does not share profiles" in text_of(answer)) == (404, True)
    comparison = Browser().get("/compare", {"share": [job.share_token, run(job.client).share_token]})
    assert "profile.simc" not in comparison.content.decode()


@pytest.mark.parametrize("code", ["simulation_error", "execution_failed", "input_invalid"])
def test_hidden_profiles_are_not_quoted(code: str, owner: Membership) -> None:
    job = make_running_job(client=default_client(owner.account))
    results = summary("a") | {"warnings": ["Quoted warning."]}
    failed = Outcome(status=Status.FAILED, error_code=code, reason="Quoted reason.", summary=results)
    assert job_moves.finish(job, failed)
    page = share_html(job)
    assert ("Quoted reason." in page, "Quoted warning." in page) == (True, True)
    change(owner)
    page = share_html(job)
    assert "Quoted" not in page
    assert "The reason can quote the profile, which is not shown." in page
    member_page = browser_of(owner).get(f"/dashboard/{owner.account}/jobs/{job.pk}").content.decode()
    assert ("Quoted reason." in member_page, "Quoted warning." in member_page) == (True, True)


def test_members_still_see_hidden_files(job: Job, owner: Membership) -> None:
    change(owner)
    secret = make_key(owner.account)[1]
    response = Browser().get(f"/v1/sim/jobs/{job.pk}/result", headers={"authorization": f"Bearer {secret}"})
    listed = response.json()["result"]["artifacts"]
    assert {artifact["kind"] for artifact in listed} == PRIVATE | {"json_report"}
    assert all(Browser().head(artifact["url"]).status_code == 200 for artifact in listed)
    assert ">Input<" in browser_of(owner).get(f"/dashboard/{owner.account}/jobs/{job.pk}/files").content.decode()


def test_the_audit_log_has_each_change_once(owner: Membership) -> None:
    change(owner, shares_inputs="on")
    change(owner)
    change(owner)
    change(owner, shares_inputs="on")
    events = AuditEvent.objects.filter(action="account.sharing_changed").order_by("pk")
    assert [event.details["new"] for event in events] == ["hidden", "shown"]
    log = text_of(browser_of(owner).get(f"/dashboard/{owner.account}/audit"))
    assert "Changed profiles and logs on share links to hidden" in log


def test_only_owners_can_change_what_links_show(owner: Membership) -> None:
    member = make_member(owner.account, role="member")
    response = browser_of(member).post(f"/dashboard/{owner.account}/data/sharing")
    assert response.status_code in (403, 404)
    owner.account.refresh_from_db()
    assert owner.account.shares_inputs


@pytest.mark.parametrize("path", ["jobs/new", "jobs/{job}"])
def test_pages_say_what_a_share_link_shows(path: str, job: Job, owner: Membership) -> None:
    browser, address = browser_of(owner), f"/dashboard/{owner.account}/{path.format(job=job.pk)}"
    assert "can see its result and files, including the profile and the logs." in text_of(browser.get(address))
    change(owner)
    assert "can see its result and files, except for the profile and the logs." in text_of(browser.get(address))


def hide(owner: Membership, job: Job, **fields: str) -> None:
    """Change the switch of one job, as its page does."""
    assert browser_of(owner).post(f"/dashboard/{owner.account}/jobs/{job.pk}/sharing", fields).status_code == 302


def public_texts(job: Job, owner: Membership) -> list[str]:
    """Return every public document about a job."""
    other = Browser().get("/compare", {"share": [job.share_token, run(job.client).share_token]})
    addresses = [f"/share/{job.share_token}", f"/manifests/{job.share_token}"]
    pages = [Browser().get(address).content.decode() for address in addresses]
    again = browser_of(owner).get(f"/share/{job.share_token}/run", follow=True)
    data: Any = Browser().get(f"/share/{job.share_token}/data.json")
    return [*pages, other.content.decode(), again.content.decode(), b"".join(data.streaming_content).decode()]


def test_a_member_can_hide_the_inputs_of_one_job(job: Job, owner: Membership) -> None:
    other = run(job.client)
    hide(owner, job)
    assert (kinds_in_manifest(job), kinds_in_manifest(other)) == ({"json_report"}, PRIVATE | {"json_report"})
    page = share_html(job)
    assert not any(text in page for text in (">Input<", ">Output log<", ">Error log<", "Run this again"))
    assert "profile.simc" not in public_texts(job, owner)[2]
    files = ("data.json", "input.txt", "output.txt")
    statuses = [Browser().head(f"/share/{job.share_token}/{file}").status_code for file in files]
    assert statuses == [200, 404, 404]
    hide(owner, job, shares_inputs="on")
    assert kinds_in_manifest(job) == PRIVATE | {"json_report"}


def test_no_public_page_shows_the_profile_of_a_hidden_job(owner: Membership, tmp_path: Path) -> None:
    make_stand_in(tmp_path, LEAVE_REPORT)
    job = run(default_client(owner.account), text='mage="A"\n# a note to myself\n')
    assert any("a note to myself" in text for text in public_texts(job, owner))
    hide(owner, job)
    assert not any("a note to myself" in text for text in public_texts(job, owner))


def test_a_job_cannot_show_what_its_account_hides(job: Job, owner: Membership) -> None:
    change(owner)
    hide(owner, job)
    hide(owner, job, shares_inputs="on")
    assert kinds_in_manifest(job) == {"json_report"}
    assert "data.json" in share_html(job)
    page = browser_of(owner).get(f"/dashboard/{owner.account}/jobs/{job.pk}").content.decode()
    assert "Show the profile and the logs" not in page


def test_the_audit_log_has_each_change_of_a_job_once(job: Job, owner: Membership) -> None:
    hide(owner, job)
    hide(owner, job)
    hide(owner, job, shares_inputs="on")
    events = AuditEvent.objects.filter(action="job.sharing_changed").order_by("pk")
    assert [(event.details["new"], event.target_id) for event in events] == [("hidden", job.pk), ("shown", job.pk)]


def test_only_members_of_the_account_can_change_a_job(job: Job, owner: Membership) -> None:
    for other, status in ((make_member(owner.account, role="viewer"), 403), (make_member(), 404)):
        response = browser_of(other).post(f"/dashboard/{owner.account}/jobs/{job.pk}/sharing")
        assert response.status_code == status
    assert Job.objects.get(pk=job.pk).shares_inputs


def test_a_submission_can_hide_its_inputs(owner: Membership) -> None:
    secret = make_key(owner.account)[1]
    body = {"build": {"channel": "latest"}, "profile": {"text": PROFILE}, "artifacts": {"hideInputs": True}}
    headers = {"authorization": f"Bearer {secret}"}
    for given, hidden in ((body, True), (body | {"artifacts": {}}, False)):
        response = Browser().post("/v1/sim/jobs", given, content_type="application/json", headers=headers)
        assert Job.objects.get(pk=response.json()["id"]).shares_inputs is not hidden


def test_the_job_form_can_hide_the_inputs(owner: Membership) -> None:
    browser = browser_of(owner)
    page = text_of(browser.get(f"/dashboard/{owner.account}/jobs/new"))
    assert "Hide the profile and the logs on the share link" in page
    for fields, shown in (({"hide_inputs": "on"}, False), ({}, True)):
        assert submit(owner, **fields).status_code == 302
        assert Job.objects.latest("id").shares_inputs is shown


@pytest.mark.parametrize("inputs", ["shown", "hidden"])
def test_the_share_page_links_to_the_data(inputs: str, job: Job, owner: Membership) -> None:
    if inputs == "hidden":
        hide(owner, job)
    page = share_html(job)
    found = re.findall(rf'href="/share/{job.share_token}/([a-z.]+)"', page)
    links = [link for link in found if link in set(DataFile)]
    assert links == (["data.json"] if inputs == "hidden" else ["data.json", "input.txt", "output.txt"])
    assert all(Browser().head(f"/share/{job.share_token}/{link}").status_code == 200 for link in links)
