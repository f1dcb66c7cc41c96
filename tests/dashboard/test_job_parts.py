"""The parts of a job's page: the answer apart from profile, run log and files."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as HttpClient
from django.utils import timezone

from clients.accounts import default_client
from clients.models import Membership
from dashboard.jobs import profile_text
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job, JobProfile
from tests.dashboard.browsing import browser_of, count_queries, text_of
from tests.dashboard.job_pages import job_path, make_html_report, open_job
from tests.dashboard.summaries import EVIL, NAMES, make_completed_job, make_failed_job, summary
from tests.factories import make_member, make_running_job

pytestmark = pytest.mark.django_db
PLUMBING = ("Events (UTC)", "Runs", "Sandbox", "Queue limit", "Exit status", "JSON report", "Missing files")


def page(member: Membership, job: Job, part: str = "", query: str = "") -> Any:
    response = browser_of(member).get(f"{job_path(job)}{part}{query}")
    assert response.status_code == 200
    return response


def expire(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(days=40))


def test_the_answer_is_apart_from_the_plumbing(owner: Membership) -> None:
    job = make_completed_job(summary(*NAMES), client=default_client(owner.account))
    make_html_report(job)
    answer = text_of(page(owner, job))
    assert [word for word in PLUMBING if word in answer] == []
    assert "Events (UTC)" in text_of(page(owner, job, "/log"))
    assert "HTML report" in text_of(page(owner, job, "/files"))
    links = page(owner, job, "/log").content.decode()
    for part in ("", "/profile", "/log", "/files"):
        assert f'<a href="{job_path(job)}{part}"' in links


def test_the_profile_is_shown_in_pages(owner: Membership) -> None:
    lines = [f"# line {number} {EVIL}" for number in range(1, 2 * profile_text.MAX_LINES)]
    job = make_completed_job(client=default_client(owner.account), text="\n".join([*lines, "x" * 10_000]))
    first = page(owner, job, "/profile")
    assert "<img" not in first.content.decode()
    assert "Lines 1 to 200 of 400." in text_of(first)
    assert "# line 200 " in text_of(first)
    assert "# line 201 " not in text_of(first)
    last = text_of(page(owner, job, "/profile", "?from=201"))
    assert "Lines 201 to 400 of 400." in last
    assert "x" * profile_text.MAX_LINE_CHARACTERS in last
    assert "x" * (profile_text.MAX_LINE_CHARACTERS + 1) not in last
    for query in ("?from=0", "?from=9999999", "?from=-1", "?from=a"):
        page(owner, job, "/profile", query)


@pytest.mark.parametrize(("line", "first"), [(200, 1), (201, 201), (450, 401)])
def test_the_profile_opens_at_the_marked_line(owner: Membership, line: int, first: int) -> None:
    text = "\n".join(f"# line {number}" for number in range(1, 501))
    job = make_failed_job(f"Line {line}, level: no.", client=default_client(owner.account), text=text)
    shown = page(owner, job, "/profile").content.decode()
    assert f"Lines {first} to " in shown
    assert shown.count('class="is-marked"') == 1


def test_a_removed_profile_is_explained(owner: Membership) -> None:
    job = make_completed_job(client=default_client(owner.account))
    JobProfile.objects.filter(pk=job.pk).delete()
    assert "The profile was removed" in text_of(page(owner, job, "/profile"))
    expire(job)
    assert "The profile was removed" in text_of(page(owner, job, "/profile"))


def test_a_failed_job_marks_the_line_at_fault(owner: Membership) -> None:
    text = "\n".join(f"# line {number} {EVIL}" for number in range(1, 100))
    reason = f"Line 40, level: {EVIL} is not a number."
    job = make_failed_job(reason, client=default_client(owner.account), text=text)
    content = page(owner, job).content.decode()
    assert "<img" not in content
    shown = [number for number in range(1, 100) if f"# line {number} " in content]
    assert shown == list(range(37, 44))
    assert content.count('class="is-marked"') == 1
    assert content.index('class="is-marked"') < content.index("# line 40 ") < content.index("# line 41 ")
    assert content.count("Fix and resubmit") == 1
    assert "Run this again" not in content
    assert page(owner, job, "/profile").content.decode().count('class="is-marked"') == 1


@pytest.mark.parametrize(
    "reason", ["Line 999, level: no.", "x.simc, line 3, level: no.", "line 1, no", "Line 0, no"]
)
def test_a_line_that_the_profile_lacks_is_not_marked(owner: Membership, reason: str) -> None:
    job = make_failed_job(reason, client=default_client(owner.account), text='mage="A"\nlevel=80\n')
    content = page(owner, job).content.decode()
    assert "profile-lines" not in content
    assert reason in content


def stop(job: Job, job_summary: dict[str, Any] | None, *, percent: float = 14.2) -> Job:
    reason = "The job was cancelled while running. The simulation time used is billed."
    ended = Outcome(
        status=Status.CANCELLED,
        error_code="user_cancelled",
        reason=f"{reason} 3 profilesets were not simulated." if job_summary else reason,
        summary=job_summary,
        percent=percent,
        sim_duration_ms=9300,
        credits_consumed=320,
    )
    assert job_moves.finish(job, ended)
    return Job.objects.get(pk=job.pk)


def test_a_stopped_job_is_explained_once(owner: Membership) -> None:
    partial = summary("a", "b") | {"partial": True, "not_reached": {"actors": 0, "profilesets": 3}}
    job = stop(make_running_job(client=default_client(owner.account)), partial)
    content = page(owner, job).content.decode()
    text = text_of(page(owner, job))
    assert "Stopped at 14 %: 2 of 5 variants simulated, 320 credits billed." in text
    assert "Run the other 3" in text
    assert content.count('class="ending"') == 1
    for contradiction in (
        "to get results",
        "profilesets were not simulated",
        "The run ended early",
        "Stopped at 14%",
    ):
        assert contradiction not in text
    viewer = make_member(owner.account, role="viewer")
    assert "Run the other" not in text_of(open_job(viewer, job))
    share = text_of(HttpClient().get(f"/share/{job.share_token}"))
    assert "Stopped at 14 %: 2 of 5 variants simulated." in share
    assert "Run the other" not in share
    assert "320 credits" not in share


def test_a_stopped_job_with_credentials_says_why_it_cannot_continue(owner: Membership) -> None:
    partial = summary("a", "b") | {"partial": True, "not_reached": {"actors": 0, "profilesets": 3}}
    job = stop(make_running_job(client=default_client(owner.account), has_credentials=True), partial)
    text = text_of(page(owner, job))
    assert "The job used game credentials" in text
    assert "Run the other" not in text


def test_a_stopped_job_without_results_can_only_run_again(owner: Membership) -> None:
    text = text_of(page(owner, stop(make_running_job(client=default_client(owner.account)), None)))
    assert "Stopped at 14 %: 320 credits billed." in text
    assert "Run the other" not in text
    assert "Run the job again to get results." in text


def test_an_expired_result_says_what_is_missing(owner: Membership) -> None:
    job = make_completed_job(summary("a"), client=default_client(owner.account))
    expire(job)
    text = text_of(page(owner, job))
    assert "The report and the profile were removed on" in text
    assert ", after 30 days." in text
    assert "Run this again" not in text
    assert "Ranking" in text
    assert 'class="split"' not in page(owner, job).content.decode()


def test_an_expired_share_link_differs_from_an_unknown_one(owner: Membership) -> None:
    job = make_completed_job(summary("a"), client=default_client(owner.account))
    expire(job)
    gone = HttpClient().get(f"/share/{job.share_token}")
    assert gone.status_code == 410
    assert "This result has expired" in text_of(gone)
    assert gone.headers["X-Robots-Tag"] == "noindex"
    for secret in (str(job.pk), job.account.name, job.title):
        assert secret not in gone.content.decode()
    assert HttpClient().get(f"/share/{'x' * 22}").status_code == 404


@pytest.mark.parametrize("part", ["", "/profile", "/log", "/files"])
def test_queries_of_a_failed_job_are_constant(owner: Membership, part: str) -> None:
    job = make_failed_job("Line 1, level: no.", client=default_client(owner.account), text='mage="A"\nlevel=80\n')
    http = browser_of(owner)
    count_queries(http, f"{job_path(job)}{part}")
    before = count_queries(http, f"{job_path(job)}{part}")
    JobProfile.objects.filter(pk=job.pk).update(text="x=1\n" * 5000)
    assert count_queries(http, f"{job_path(job)}{part}") == before <= 9
