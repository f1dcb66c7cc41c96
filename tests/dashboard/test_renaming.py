"""Titles that members give to jobs on their pages (docs/reference/api.md#titles)."""

import pytest
from django.test import Client as HttpClient

from clients.accounts import default_client
from clients.models import ApiKey, AuditEvent, Membership
from jobs.models import TITLE_LENGTH, Job
from tests.conftest import Api
from tests.dashboard.browsing import browser_of, count_queries, pages_of, text_of
from tests.dashboard.job_pages import job_path, listed_ids, read, share_html
from tests.dashboard.summaries import EVIL
from tests.factories import make_job, make_member

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(owner: Membership) -> Job:
    return make_job(default_client(owner.account), metadata={"title": "Raid night"}, character="Frosty")


def rename(owner: Membership, job: Job, title: str) -> str:
    """Submit a new title; return the text of the following page."""
    return text_of(browser_of(owner).post(f"{job_path(job)}/title", {"title": title}, follow=True))


def test_a_given_title_is_shown_on_every_page(owner: Membership, job: Job) -> None:
    assert "Title saved." in rename(owner, job, f"Mine {EVIL}")
    for content in (*pages_of(job), read(f"/dashboard/{owner.account}/jobs", browser_of(owner))):
        assert "Mine &lt;img src=x" in content
        assert "<img" not in content


def test_a_preview_contains_the_given_title(owner: Membership, job: Job) -> None:
    rename(owner, job, "Mine")
    assert '<meta property="og:title" content="Mine">' in share_html(job)


@pytest.mark.parametrize("title", ["", "  ", "\u200b", "\u2066\u2069"])
def test_an_invisible_title_restores_the_default(owner: Membership, job: Job, title: str) -> None:
    rename(owner, job, "Mine")
    rename(owner, job, title)
    job.refresh_from_db()
    assert (job.given_title, job.title, job.public_title) == ("", "Raid night", "Frosty")


def test_a_title_is_one_line(owner: Membership, job: Job) -> None:
    rename(owner, job, "  Mine\r\n\tand \u2028 yours  ")
    job.refresh_from_db()
    assert job.title == "Mine and yours"


@pytest.mark.parametrize("title", ["x" * (TITLE_LENGTH + 1), "a\x00b"])
def test_an_unusable_title_is_refused_in_words(owner: Membership, job: Job, title: str) -> None:
    assert "The title was not saved." in rename(owner, job, title)
    job.refresh_from_db()
    assert job.title == "Raid night"


def test_the_longest_title_is_accepted(owner: Membership, job: Job) -> None:
    rename(owner, job, "\U0001f600" * TITLE_LENGTH)
    job.refresh_from_db()
    assert len(job.title) == TITLE_LENGTH


def test_a_change_is_recorded_once(owner: Membership, job: Job) -> None:
    for title in ("Mine", " Mine ", ""):
        rename(owner, job, title)
    page = read(f"/dashboard/{owner.account}/audit", browser_of(owner))
    assert AuditEvent.objects.filter(action="job.renamed").count() == 2
    link = f'<a href="/dashboard/{owner.account}/jobs/{job.pk}"><bdi>{job.pk}</bdi></a>'
    for title in ("Mine", "its default"):
        assert f"Changed the title of job {link} to <bdi>{title}</bdi>" in page


def test_the_last_title_wins(owner: Membership, job: Job) -> None:
    for member, title in ((owner, "First"), (make_member(owner.account, role="member"), "Second")):
        rename(member, job, title)
    job.refresh_from_db()
    assert job.title == "Second"


def test_a_viewer_cannot_rename(owner: Membership, job: Job) -> None:
    viewer = make_member(owner.account, role="viewer")
    assert browser_of(viewer).post(f"{job_path(job)}/title", {"title": "Mine"}).status_code == 403
    assert "Save title" not in read(job_path(job), browser_of(viewer))


def test_another_accounts_job_cannot_be_renamed(owner: Membership) -> None:
    path = f"/dashboard/{owner.account}/jobs/{make_job().pk}/title"
    assert browser_of(owner).post(path, {"title": "Mine"}).status_code == 404


def test_a_rename_needs_a_form_token(owner: Membership, job: Job) -> None:
    http = HttpClient(enforce_csrf_checks=True)
    http.force_login(owner.user)
    assert http.post(f"{job_path(job)}/title", {"title": "Mine"}).status_code == 403


def test_the_list_finds_a_given_title(owner: Membership, job: Job) -> None:
    rename(owner, job, 'Nächte "im" 100%')
    make_job(default_client(owner.account))
    for text in ("nächte", '"im"', "100%25", "raid+night"):
        assert listed_ids(owner, f"text={text}") == [job.pk], text
    assert listed_ids(owner, "text=100_") == []


def test_the_api_has_the_title_of_the_pages(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client, metadata={"title": "Raid night"}, character="Frosty")
    Job.objects.filter(pk=job.pk).update(given_title="Mine")
    assert api.get(f"jobs/{job.pk}").json()["title"] == "Mine"
    assert [listed["title"] for listed in api.get("jobs").json()["jobs"]] == ["Mine"]


def test_a_title_needs_no_query(owner: Membership, job: Job) -> None:
    http = browser_of(owner)
    before = count_queries(http, job_path(job))
    rename(owner, job, "Mine")
    assert count_queries(http, job_path(job)) == before
