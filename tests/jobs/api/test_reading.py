"""Job object, status, result, artifacts and manifest (docs/reference/api.md#read-jobs)."""

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clients.models import ApiKey
from jobs.artifacts import artifact_files
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.live.preview import Preview
from jobs.live.progress import Progress, Publisher, StageProgress, progress_of
from jobs.models import Artifact, Job, JobDetails
from jobs.results import details
from tests.conftest import Api
from tests.factories import BuildFactory, make_job, make_running_job, start_attempt

SUMMARY: dict[str, Any] = {
    "metric": "dps",
    "mainActor": {"name": "A", "mean": 5.0, "mean_error": 0.5, "gear": [{"slot": "head"}]},
}
DETAILS = {"version": 1, "fight": {"targets": 1}, "actors": [{"name": "A"}]}
RESULT_QUERIES = 3
HTML = b"<!doctype html><script>alert(1)</script>" + b"x" * 5000


def end(job: Job) -> Artifact:
    """Complete a running job that has one artifact."""
    artifact = artifact_files.store(job, Artifact.Kind.HTML_REPORT, io.BytesIO(HTML))
    outcome = Outcome(
        status=Status.COMPLETED, exit_code="0", sim_duration_ms=1200, credits_consumed=64, summary=SUMMARY
    )
    assert job_moves.finish(job, outcome)
    artifact.save(force_insert=True)
    return artifact


@pytest.fixture
def running(key: tuple[ApiKey, str]) -> Job:
    return make_running_job(client=key[0].client, metadata={"a": "b"})


@pytest.mark.parametrize("address", ["result", "manifest"])
def test_the_main_actors_equipment_is_beside_the_actor(api: Api, running: Job, address: str) -> None:
    worn = [
        {"slot": "head", "name": "hood", "id": 7, "craftedStatIds": [36, 49]},
        {"slot": "neck", "name": "chain"},
    ]
    actor = SUMMARY["mainActor"] | {"gear": worn, "talents": "CAEA"}
    end(running)
    Job.objects.filter(pk=running.pk).update(summary=SUMMARY | {"mainActor": actor})
    manifest = HttpClient().get(f"/manifests/{running.share_token}")
    response = manifest if address == "manifest" else api.get(f"jobs/{running.pk}/result")
    summary = response.json()["result"]["summary"]
    assert (summary["talents"], summary["gear"]) == ("CAEA", worn[:1])
    assert summary["mainActor"] == actor


def test_a_summary_without_a_main_actor_has_no_equipment(api: Api, running: Job) -> None:
    end(running)
    Job.objects.filter(pk=running.pk).update(summary={"metric": "dps", "mainActor": None})
    assert set(api.get(f"jobs/{running.pk}/result").json()["result"]["summary"]) == {"metric", "mainActor"}


def test_a_waiting_job_and_its_status(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    body = api.get(f"jobs/{job.pk}").json()
    assert (body["status"], body["startedAt"], body["build"]) == ("pending", None, None)
    assert body["runtime"]["creditsConsumed"] is None
    assert set(body["links"]) == {"share"}
    status = api.get(f"jobs/{job.pk}/status").json()
    assert set(status["queue"]) == {"queuedAt", "estimatedStartSeconds", "estimatedStartUpdatedAt"}
    assert status["progress"] == {"percent": 0, "stage": None}


def test_the_status_shows_progress_of_a_running_job(api: Api, running: Job) -> None:
    stage = StageProgress(current=1, total=1, label="initial", percent=42.5)
    Publisher(running).publish(Progress(percent=42.5, stage=stage))
    body = api.get(f"jobs/{running.pk}/status").json()
    assert body["queue"] is None
    assert body["progress"] == {
        "percent": 42.5,
        "stage": {"current": 1, "total": 1, "label": "initial", "percent": 42.5},
    }


def test_the_progress_of_a_lost_attempt_is_not_shown(api: Api, running: Job) -> None:
    Publisher(running).publish(Progress(percent=90, stage=None))
    job_moves.requeue(running, reason="lost")
    start_attempt(running, worker="w2")
    job_moves.start_run(running, build=BuildFactory.create())
    assert api.get(f"jobs/{running.pk}/status").json()["progress"]["percent"] == 0


def test_progress_is_published_at_most_twice_a_second(running: Job) -> None:
    publisher = Publisher(running)
    for percent in range(50):
        publisher.publish(Progress(percent=percent, stage=None))
    assert progress_of(running).percent == 0


def test_a_completed_job_has_its_fields(api: Api, running: Job) -> None:
    artifact = end(running)
    body = api.get(f"jobs/{running.pk}/result").json()
    assert body["result"]
    assert (body["status"], body["simcExitCode"], body["metadata"]) == ("completed", "0", {"a": "b"})
    assert body["runtime"]["creditsConsumed"] == 64
    assert body["result"]["summary"] == SUMMARY
    assert body["result"]["verdict"] == {
        "kind": "no_variants",
        "names": [],
        "count": 0,
        "change": None,
        "margin": None,
        "factor": 1.0,
        "text": "5 ± 0 DPS",
    }
    (listed,) = body["result"]["artifacts"]
    assert set(listed) == {"id", "url", "kind", "name", "mimeType", "stage", "bytes"}
    assert (listed["id"], listed["bytes"]) == (str(artifact.pk), len(HTML))
    assert (listed["name"], listed["mimeType"]) == ("report.html", "text/html")
    assert api.get(f"jobs/{running.pk}/status").json()["progress"]["percent"] == 100


def test_details_are_included_on_request(api: Api, running: Job, django_assert_num_queries: Any) -> None:
    end(running)
    assert "details" not in api.get(f"jobs/{running.pk}/result").json()["result"]
    assert api.get(f"jobs/{running.pk}/result?include=details").json()["result"]["details"] is None
    JobDetails.objects.create(job=running, version=1, document=details.packed(DETAILS))
    with django_assert_num_queries(RESULT_QUERIES):
        api.get(f"jobs/{running.pk}/result")
    with django_assert_num_queries(RESULT_QUERIES + 1):
        assert api.get(f"jobs/{running.pk}/result?include=details").json()["result"]["details"] == DETAILS


def test_details_are_unavailable_after_retention(api: Api, running: Job) -> None:
    end(running)
    JobDetails.objects.create(job=running, version=1, document=details.packed(DETAILS))
    Job.objects.filter(pk=running.pk).update(created_at=timezone.now() - timedelta(days=31))
    assert api.get(f"jobs/{running.pk}/result?include=details").json()["result"]["details"] is None


@pytest.mark.parametrize("include", ["logEntries", "details,x", "", "details&include=x"])
def test_nothing_else_can_be_included_in_a_result(api: Api, running: Job, include: str) -> None:
    end(running)
    response = api.get(f"jobs/{running.pk}/result?include={include}")
    assert (response.status_code, response.json()["code"]) == (400, "validation_failed")
    assert response.json()["meta"]["issues"][0]["path"] == "include"


@pytest.mark.parametrize("make", [make_job, make_running_job])
def test_there_is_no_result_before_the_job_ends(
    api: Api, key: tuple[ApiKey, str], make: Callable[..., Job]
) -> None:
    job = make(client=key[0].client)
    response = api.get(f"jobs/{job.pk}/result")
    assert (response.status_code, response.json()["code"]) == (409, "result_not_ready")
    assert response.json()["meta"] == {"status": job.status}


def test_there_is_no_result_without_a_run(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    job_moves.finish(job, Outcome(status=Status.FAILED, error_code="queue_timeout"))
    response = api.get(f"jobs/{job.pk}/result")
    assert (response.status_code, response.json()["code"]) == (422, "result_unavailable")


def test_log_entries_need_a_request_and_a_running_job(api: Api, running: Job) -> None:
    assert api.get(f"jobs/{running.pk}/status").json()["logEntries"] is None
    assert api.get(f"jobs/{running.pk}/status?include=logEntries").json()["logEntries"] == []
    end(running)
    assert api.get(f"jobs/{running.pk}/status?include=logEntries").json()["logEntries"] is None


def test_a_preview_needs_a_request_and_a_running_job(api: Api, running: Job) -> None:
    known = Preview(seconds_left=None, baseline=None, finished=1, count=2, best=[])
    Publisher(running, preview=lambda: known).publish(Progress(percent=5, stage=None))
    for query in ("", "?include=logEntries"):
        assert "preview" not in api.get(f"jobs/{running.pk}/status{query}").json()
    shown = api.get(f"jobs/{running.pk}/status?include=preview").json()
    assert shown["preview"]["profilesets"] == {"finished": 1, "count": 2, "results": []}
    assert shown["logEntries"] is None
    end(running)
    assert api.get(f"jobs/{running.pk}/status?include=preview").json()["preview"] is None


@pytest.mark.parametrize("value", ["", "Preview", "preview,logEntries", "everything"])
def test_only_known_parts_can_be_included(api: Api, running: Job, value: str) -> None:
    response = api.get(f"jobs/{running.pk}/status?include={value}")
    assert (response.status_code, response.json()["code"]) == (400, "validation_failed")
    (issue,) = response.json()["meta"]["issues"]
    assert issue == {"path": "include", "message": "Must be: logEntries or preview."}


def test_another_accounts_preview_does_not_exist(api: Api) -> None:
    foreign = make_running_job()
    known = Preview(seconds_left=5, baseline=None, finished=1, count=2, best=[])
    Publisher(foreign, preview=lambda: known).publish(Progress(percent=5, stage=None))
    response = api.get(f"jobs/{foreign.pk}/status?include=preview")
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("tail", ["", "/status", "/status?include=preview"])
def test_a_read_takes_two_queries(api: Api, running: Job, tail: str) -> None:
    api.get(f"jobs/{running.pk}{tail}")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        api.get(f"jobs/{running.pk}{tail}")
    assert len(queries) == 2


def test_the_url_of_an_artifact(api: Api, running: Job) -> None:
    artifact = end(running)
    url = api.get(f"artifacts/{artifact.pk}/url").json()["url"]
    assert url == f"http://testserver/artifacts/{artifact.token}"
    other_job = end(make_running_job())
    assert api.get(f"artifacts/{other_job.pk}/url").json()["code"] == "not_found"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path",
    ["/artifacts/unknown", "/manifests/unknown", "/artifacts/%00", "/manifests/%00", "/artifacts/" + "x" * 22],
)
def test_unknown_tokens_are_not_found(path: str) -> None:
    response = HttpClient().get(path)
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


def test_the_manifest_contains_the_result_without_metadata(running: Job) -> None:
    path = f"/manifests/{running.share_token}"
    assert HttpClient().get(path).status_code == 404
    end(running)
    body = HttpClient().get(path).json()
    assert set(body) == {"version", "job", "build", "result", "artifacts"}
    assert set(body["job"]) == {"id", "status", "createdAt", "startedAt", "completedAt"}
    assert body["result"]["summary"]["mainActor"] == SUMMARY["mainActor"]
    assert len(body["artifacts"][0]["sha256"]) == 64
