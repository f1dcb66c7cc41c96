"""The page of an unfinished job: it refreshes as a whole, and its parts are consistent."""

import pytest
from django.test import Client as HttpClient
from django.utils import timezone

from clients.accounts import default_client
from dashboard.jobs import job_page
from jobs.live.progress import Progress, Publisher, StageProgress
from jobs.models import JobEvent, Run
from jobs.results import queries
from tests.dashboard.browsing import browser_of, count_queries, text_of
from tests.dashboard.job_pages import complete_after, job_path, refresh_job
from tests.dashboard.summaries import make_completed_job, make_unfinished_job
from tests.factories import make_job, make_member, make_running_job


@pytest.mark.django_db
@pytest.mark.parametrize("is_running", [True, False], ids=["running", "waiting"])
def test_the_page_of_an_unfinished_job_refreshes(is_running: bool) -> None:  # noqa: FBT001
    owner = make_member()
    job = make_unfinished_job(owner, is_running=is_running)
    content = browser_of(owner).get(job_path(job)).content.decode()
    assert f'hx-get="{job_path(job)}" hx-trigger="every 2s" hx-target="#live"' in content
    part = refresh_job(owner, job).content.decode()
    assert "<html" not in part
    for text in ('id="live"', 'aria-current="page">Result', "hx-get", "Cancel job"):
        assert text in part, text
    log = browser_of(owner).get(f"{job_path(job)}/log", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in log
    for text in (f'hx-get="{job_path(job)}/log"', "<h2>Events (UTC)</h2>", "<h2>Runs</h2>"):
        assert text in log, text


@pytest.mark.django_db
def test_the_progress_shows_the_stage_of_the_last_run() -> None:
    owner = make_member()
    job = make_running_job(client=default_client(owner.account))
    Run.objects.filter(job=job).update(stage=2)
    behind = StageProgress(current=1, total=3, label="initial", percent=90)
    Publisher(job).publish(Progress(percent=12, stage=behind))
    assert "stage 2 of 3" in refresh_job(owner, job).content.decode()


@pytest.mark.django_db
def test_the_refresh_stops_when_the_job_ends() -> None:
    owner = make_member()
    job = make_completed_job(client=default_client(owner.account))
    part = refresh_job(owner, job).content.decode()
    assert "hx-get" not in part
    for text in ("Completed", 'id="results"', "64 credits billed"):
        assert text in part, text


@pytest.mark.django_db
def test_a_refresh_keeps_messages_for_the_next_page() -> None:
    owner = make_member()
    job = make_running_job(client=default_client(owner.account))
    http = browser_of(owner)
    http.post(f"{job_path(job)}/title", {"title": "Mine"})
    http.get(job_path(job), headers={"HX-Request": "true"})
    assert "Title saved." in text_of(http.get(job_path(job)))


@pytest.mark.django_db
def test_a_refresh_after_logout_reloads_the_page() -> None:
    owner = make_member()
    http, job = browser_of(owner), make_job(default_client(owner.account))
    http.logout()
    response = http.get(job_path(job), headers={"HX-Request": "true"})
    assert (response.status_code, response.headers["HX-Refresh"], response.content) == (200, "true", b"")


@pytest.mark.django_db
def test_a_refresh_needs_a_constant_number_of_queries() -> None:
    owner = make_member()
    job = make_running_job(client=default_client(owner.account))
    assert job.build is not None
    http = browser_of(owner)
    # The first request of a session costs one more.
    count_queries(http, job_path(job), HX_Request="true")
    paths = [job_path(job), f"{job_path(job)}/log"]
    before = [count_queries(http, path, HX_Request="true") for path in paths]
    for stage in range(2, 30):
        Run.objects.create(job=job, attempt=1, stage=stage, build=job.build, started_at=timezone.now())
        JobEvent.objects.create(job=job, at=timezone.now(), to_status="queued", attempt=1)
    # The login's three, and the job with its runs, and its events.
    assert [count_queries(http, path, HX_Request="true") for path in paths] == before == [5, 6]


@pytest.mark.django_db(transaction=True)
def test_a_job_that_ends_during_a_read_is_shown_running(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = make_member()
    job = make_running_job(client=default_client(owner.account))
    complete_after(job_page, "_find_job", monkeypatch)
    text = text_of(browser_of(owner).get(f"{job_path(job)}/log"))
    assert "Simulation started" in text
    assert "Running" in text
    assert "Completed" not in text
    assert "exit status" not in text
    monkeypatch.undo()
    assert "Completed" in text_of(refresh_job(owner, job))


@pytest.mark.django_db(transaction=True)
def test_a_job_that_ends_during_a_read_shares_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_running_job()
    complete_after(queries, "find_shared", monkeypatch)
    text = text_of(HttpClient().get(f"/share/{job.share_token}"))
    assert "Running" in text
    assert "JSON report" not in text
    monkeypatch.undo()
    assert "JSON report" in text_of(HttpClient().get(f"/share/{job.share_token}"))
