"""Helpers to open the pages of jobs, and to change a job while a page is read."""

import io
import threading
from typing import Any

import pytest
from django.db import connection
from django.test import Client as HttpClient
from django.utils import timezone

from clients.models import Membership
from jobs.artifacts import artifact_files
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job, Run
from tests.dashboard.browsing import browser_of
from tests.dashboard.summaries import summary


def read(path: str, http: HttpClient) -> str:
    """Return the HTML of a page."""
    response = http.get(path)
    assert response.status_code == 200
    return response.content.decode()


def open_page(owner: Membership, job: Job, path: str) -> Any:
    """Return a page about a job. `path` may contain `{account}`, `{job}` and `{token}`."""
    path = path.format(account=owner.account, job=job.pk, token=job.share_token)
    response = (HttpClient() if path.startswith("/share/") else browser_of(owner)).get(path)
    assert response.status_code == 200
    return response


def open_list(owner: Membership, query: str = "") -> Any:
    """Return the list of the account's jobs."""
    response = browser_of(owner).get(f"/dashboard/{owner.account}/jobs?{query}")
    assert response.status_code == 200
    return response


def listed_ids(owner: Membership, query: str = "") -> list[int]:
    """Return the ids of the jobs on a page of the list."""
    return [job.pk for job in open_list(owner, query).context["page"].rows]


def job_path(job: Job) -> str:
    return f"/dashboard/{job.account}/jobs/{job.pk}"


def open_job(owner: Membership, job: Job) -> Any:
    """Return a job's page."""
    response = browser_of(owner).get(job_path(job))
    assert response.status_code == 200
    return response


def open_log(owner: Membership, job: Job) -> Any:
    """Return the page about the runs of a job."""
    response = browser_of(owner).get(f"{job_path(job)}/log")
    assert response.status_code == 200
    return response


def refresh_job(owner: Membership, job: Job) -> Any:
    """Return a job's page as its script requests it."""
    response = browser_of(owner).get(job_path(job), headers={"HX-Request": "true"})
    assert response.status_code == 200
    return response


def open_share_page(job: Job, query: str = "") -> Any:
    """Return a job's share page."""
    response = HttpClient().get(f"/share/{job.share_token}{query}")
    assert response.status_code == 200
    return response


def share_html(job: Job, query: str = "") -> str:
    """Return the HTML of a job's share page."""
    content: str = open_share_page(job, query).content.decode()
    return content


def make_html_report(job: Job) -> Artifact:
    """Store an HTML report for a job."""
    report = artifact_files.store(job, Artifact.Kind.HTML_REPORT, io.BytesIO(b"<script>top.x = 1</script>"))
    report.save(force_insert=True)
    return report


def complete_after(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Complete a job, on another connection, as soon as the named function has read it."""
    read_job = getattr(module, name)

    def read_and_complete(*arguments: Any) -> Job:
        job: Job = read_job(*arguments)
        thread = threading.Thread(target=_complete, args=[job.pk])
        thread.start()
        thread.join()
        return job

    monkeypatch.setattr(module, name, read_and_complete)


def _complete(job_id: int) -> None:
    """Complete a running job with a report."""
    try:
        job = Job.objects.get(pk=job_id)
        artifact_files.store(job, Artifact.Kind.JSON_REPORT, io.BytesIO(b"{}")).save(force_insert=True)
        Run.objects.filter(job_id=job_id).update(ended_at=timezone.now(), wall_ms=1500, exit_code="0")
        completed = Outcome(status=Status.COMPLETED, sim_duration_ms=1500, credits_consumed=64, summary=summary())
        assert job_moves.finish(job, completed)
    finally:
        connection.close()
