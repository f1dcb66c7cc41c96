"""A job's page while the job runs: it refreshes as a whole, and its parts never contradict each other."""

import io
import threading
from typing import Any

import pytest
from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clients.accounts import default_client
from clients.models import Membership
from dashboard import job_page
from jobs import artifacts, lifecycle, queries
from jobs.enums import Status
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Job, JobEvent, Run
from jobs.progress import Progress, Publisher, StageProgress
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.summaries import make_completed_job, summary
from tests.factories import make_job, make_member, make_running_job

DONE = Outcome(status=Status.COMPLETED, sim_duration_ms=1500, credits_consumed=64, summary=summary())


def path_of(job: Job) -> str:
    """Return the address of a job's page."""
    return f"/dashboard/{job.account}/jobs/{job.pk}"


def poll(owner: Membership, job: Job) -> Any:
    """Ask for a job's page as the page itself does."""
    answer = browser_of(owner).get(path_of(job), headers={"HX-Request": "true"})
    assert answer.status_code == 200
    return answer


def make_job_of(owner: Membership, *, is_running: bool) -> Job:
    make = make_running_job if is_running else make_job
    return make(client=default_client(owner.account))


@pytest.mark.django_db
@pytest.mark.parametrize("is_running", [True, False], ids=["running", "waiting"])
def test_an_unfinished_jobs_page_asks_for_itself(is_running: bool) -> None:  # noqa: FBT001
    owner = make_member()
    job = make_job_of(owner, is_running=is_running)
    content = browser_of(owner).get(path_of(job)).content.decode()
    assert f'hx-get="{path_of(job)}" hx-trigger="every 2s" hx-target="#live"' in content
    part = poll(owner, job).content.decode()
    assert "<html" not in part
    for words in ('id="live"', "What happened", "<h2>Runs</h2>", "hx-get", "Cancel the job"):
        assert words in part, words


@pytest.mark.django_db
def test_the_stage_beside_the_percent_is_that_of_the_runs() -> None:
    owner = make_member()
    job = make_running_job(client=default_client(owner.account))
    Run.objects.filter(job=job).update(stage=2)
    behind = StageProgress(current=1, total=3, label="initial", percent=90)
    Publisher(job).publish(Progress(percent=12, stage=behind))
    assert "stage 2 of 3" in poll(owner, job).content.decode()


@pytest.mark.django_db
def test_the_refresh_ends_with_the_job() -> None:
    owner = make_member()
    job = make_completed_job(client=default_client(owner.account))
    part = poll(owner, job).content.decode()
    assert "hx-get" not in part
    for words in ("Completed", 'id="results"', "64 used"):
        assert words in part, words


@pytest.mark.django_db
def test_a_refresh_leaves_messages_to_the_next_page() -> None:
    owner = make_member()
    job = make_running_job(client=default_client(owner.account))
    http = browser_of(owner)
    http.post(f"{path_of(job)}/cancel")
    http.get(path_of(job), headers={"HX-Request": "true"})
    assert "Cancel requested." in text_of(http.get(path_of(job)))


@pytest.mark.django_db
def test_a_refresh_after_the_login_ended_loads_the_page() -> None:
    owner = make_member()
    http, job = browser_of(owner), make_job(default_client(owner.account))
    http.logout()
    answer = http.get(path_of(job), headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Refresh"], answer.content) == (200, "true", b"")


def queries_of(http: HttpClient, job: Job) -> int:
    """Return how many queries a refresh takes."""
    with CaptureQueriesContext(connection) as seen:
        http.get(path_of(job), headers={"HX-Request": "true"})
    return len([one for one in seen if "SAVEPOINT" not in one["sql"]])


@pytest.mark.django_db
def test_a_refresh_costs_as_many_queries_whatever_happened() -> None:
    owner = make_member()
    job = make_running_job(client=default_client(owner.account))
    assert job.build is not None
    http = browser_of(owner)
    # The first request of a session costs one more.
    queries_of(http, job)
    before = queries_of(http, job)
    for stage in range(2, 30):
        Run.objects.create(job=job, attempt=1, stage=stage, build=job.build, started_at=timezone.now())
        JobEvent.objects.create(job=job, at=timezone.now(), to_status="queued", attempt=1)
    # The login's three, and the job, its files, runs and events.
    assert queries_of(http, job) == before == 7


def end_after(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a job end, on another connection, as soon as a function of a page has read it."""
    read = getattr(module, name)

    def read_and_end(*arguments: Any) -> Job:
        job: Job = read(*arguments)
        thread = threading.Thread(target=end, args=[job.pk])
        thread.start()
        thread.join()
        return job

    monkeypatch.setattr(module, name, read_and_end)


def end(job_id: int) -> None:
    """Complete a running job, with the end of its process and a report."""
    try:
        job = Job.objects.get(pk=job_id)
        artifacts.store(job, Artifact.Kind.JSON_REPORT, io.BytesIO(b"{}")).save(force_insert=True)
        Run.objects.filter(job_id=job_id).update(ended_at=timezone.now(), wall_ms=1500, exit_code="0")
        assert lifecycle.finish(job, DONE)
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_job_that_ends_meanwhile_is_shown_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = make_member()
    job = make_running_job(client=default_client(owner.account))
    end_after(job_page, "find", monkeypatch)
    text = text_of(poll(owner, job))
    assert "The simulator started" in text
    assert "Running" in text
    assert "Completed" not in text
    assert "exit status" not in text
    monkeypatch.undo()
    assert "Completed" in text_of(poll(owner, job))


@pytest.mark.django_db(transaction=True)
def test_a_shared_job_that_ends_meanwhile_shows_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_running_job()
    end_after(queries, "find_shared", monkeypatch)
    text = text_of(HttpClient().get(f"/share/{job.share_token}"))
    assert "Running" in text
    assert "Report (JSON)" not in text
    monkeypatch.undo()
    assert "Report (JSON)" in text_of(HttpClient().get(f"/share/{job.share_token}"))
