"""Access to a job during its retention, and its removal afterwards."""

import io
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from django.core.files.storage import default_storage
from django.test import Client as HttpClient
from django.test import override_settings
from django.utils import timezone
from pytest_django import Settings

from clients.models import ApiKey
from jobs.artifacts import artifact_files, retention, storage
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job, JobDetails, JobProfile
from simservice import storages
from tests.conftest import Api
from tests.factories import PROFILE, BuildFactory, make_running_job
from tests.s3_server import S3Server

pytestmark = pytest.mark.usefixtures("each_storage")


@pytest.fixture
def artifact(key: tuple[ApiKey, str]) -> Artifact:
    """The only artifact of an ended job."""
    job = make_running_job(client=key[0].client)
    stored = store(job)
    end(job)
    stored.save(force_insert=True)
    return stored


def store(job: Job, kind: Artifact.Kind = Artifact.Kind.INPUT) -> Artifact:
    return artifact_files.store(job, kind, io.BytesIO(b"mage=x\n"))


def end(job: Job) -> None:
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary={"mainActor": None}))


def files(job: Job) -> list[str]:
    """Return the names of all stored files of a job."""
    names = default_storage.listdir(artifact_files.folder_of(job.pk))[1]
    return [name for name in names if name.startswith(f"{job.pk}-")]


def age(job: Job, *, days: float) -> None:
    Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(days=days))


def public(artifact: Artifact) -> list[str]:
    """Return the addresses that need no key."""
    token = artifact.job.share_token
    return [f"/artifacts/{artifact.token}", f"/manifests/{token}", f"/share/{token}"]


def statuses(artifact: Artifact) -> list[Any]:
    http = HttpClient()
    return [http.head(path).status_code for path in public(artifact)]


def test_links_work_until_the_last_day(artifact: Artifact) -> None:
    age(artifact.job, days=29.9)
    assert statuses(artifact) == [200, 200, 200]


def test_links_are_gone_after_retention(artifact: Artifact) -> None:
    age(artifact.job, days=30.1)
    assert statuses(artifact) == [404, 404, 410]


def test_an_owner_sees_that_an_artifact_has_expired(api: Api, artifact: Artifact) -> None:
    assert api.get(f"artifacts/{artifact.pk}/url").status_code == 200
    age(artifact.job, days=30.1)
    response = api.get(f"artifacts/{artifact.pk}/url")
    assert (response.status_code, response.json()["code"]) == (410, "artifact_expired")


def test_a_job_can_still_be_read_after_its_retention(api: Api, artifact: Artifact) -> None:
    age(artifact.job, days=30.1)
    assert api.get(f"jobs/{artifact.job_id}").json()["status"] == "completed"
    assert api.get(f"jobs/{artifact.job_id}/result").json()["result"]["artifacts"] == []


def test_a_profile_can_be_read_until_the_last_day(api: Api, artifact: Artifact) -> None:
    path = f"jobs/{artifact.job_id}/profile"
    age(artifact.job, days=29.9)
    assert api.get(path).status_code == 200
    age(artifact.job, days=30.1)
    assert (api.get(path).status_code, api.get(path).json()["code"]) == (404, "not_found")


def test_outputs_are_removed_and_the_job_stays(api: Api, artifact: Artifact) -> None:
    facts = api.get(f"jobs/{artifact.job_id}").json()
    JobDetails.objects.create(job_id=artifact.job_id, version=1, document=b"")
    age(artifact.job, days=30.1)
    assert retention.clear_expired() == 1
    assert files(artifact.job) == []
    assert not JobDetails.objects.exists()
    assert not JobProfile.objects.filter(pk=artifact.job_id).exists()
    # The title of this job is the time of its submission.
    aged = {name: facts[name] for name in ("createdAt", "title")}
    assert api.get(f"jobs/{artifact.job_id}").json() | aged == facts
    assert api.get(f"artifacts/{artifact.pk}/url").json()["code"] == "artifact_expired"
    assert statuses(artifact) == [404, 404, 410]
    assert retention.clear_expired() == 0


@pytest.mark.parametrize("days", [29.9, 30.01], ids=["kept", "a download may still run"])
def test_nothing_is_removed_too_early(artifact: Artifact, days: float) -> None:
    age(artifact.job, days=days)
    assert retention.clear_expired() == 0
    assert len(files(artifact.job)) == 1


def test_an_unfinished_job_loses_nothing_at_any_age(db: None) -> None:
    job = make_running_job()
    store(job)
    age(job, days=99)
    assert retention.clear_expired() == 0
    assert len(files(job)) == 1


def test_orphaned_files_are_removed_with_their_job(artifact: Artifact) -> None:
    lost, neighbour = artifact.job, make_running_job()
    store(lost, Artifact.Kind.STDOUT_LOG)
    store(neighbour)
    age(lost, days=31)
    retention.clear_expired()
    assert (files(lost), len(files(neighbour))) == ([], 1)


def test_a_longer_retention_restores_nothing(api: Api, artifact: Artifact, settings: Settings) -> None:
    age(artifact.job, days=31)
    retention.clear_expired()
    settings.RETENTION_DAYS = 60
    assert statuses(artifact) == [404, 404, 410]
    assert api.get(f"artifacts/{artifact.pk}/url").status_code == 410
    assert api.get(f"jobs/{artifact.job_id}/result").json()["result"]["artifacts"] == []


def test_a_replay_is_answered_after_the_removal(api: Api, key: tuple[ApiKey, str]) -> None:
    BuildFactory.create()
    body = {"build": {"channel": "latest"}, "profile": {"text": PROFILE}}
    first = api.post("jobs", body, headers={"idempotency-key": "once"})
    job = Job.objects.get(pk=first.json()["id"])
    assert job_moves.finish(job, Outcome(status=Status.CANCELLED, error_code="user_cancelled"))
    age(job, days=31)
    assert retention.clear_expired() == 1
    again = api.post("jobs", body, headers={"idempotency-key": "once"})
    assert (again.status_code, again.content) == (200, first.content)


def test_a_crash_after_the_files_are_gone_costs_nothing(artifact: Artifact) -> None:
    age(artifact.job, days=31)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "subtract", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            retention.clear_expired()
    assert files(artifact.job) == []
    assert JobProfile.objects.filter(pk=artifact.job_id).exists()
    assert retention.clear_expired() == 1


def test_a_crash_before_all_files_are_gone_costs_nothing(artifact: Artifact) -> None:
    store(artifact.job, Artifact.Kind.STDOUT_LOG)
    age(artifact.job, days=31)
    keeper = cast(storages.ArtifactStorage, default_storage)
    delete_many, crashes = keeper.delete_many, iter([False, True])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storages, "MAX_REMOVED_AT_ONCE", 1)
        patch.setattr(keeper, "delete_many", lambda names: 1 / 0 if next(crashes) else delete_many(names))
        with pytest.raises(ZeroDivisionError):
            retention.clear_expired()
    assert len(files(artifact.job)) == 1
    assert retention.clear_expired() == 1
    assert files(artifact.job) == []


def test_a_storage_outage_is_retried_later(
    artifact: Artifact, settings: Settings, s3_server: S3Server, tmp_path: Path
) -> None:
    age(artifact.job, days=31)
    with override_settings(STORAGES=s3_server.storages(secret_access_key="another")):
        assert retention.clear_expired() == 0
    assert retention.count_overdue() == 1
    assert retention.clear_expired() == 1
    assert files(artifact.job) == []


def test_a_file_that_cannot_be_removed_keeps_only_its_own_job(artifact: Artifact) -> None:
    stuck = artifact.storage_name
    others = [make_running_job() for _ in range(3)]
    for number, job in enumerate(others):
        store(job)
        end(job)
        age(job, days=31 + number)
    age(artifact.job, days=50)
    keeper = cast(storages.ArtifactStorage, default_storage)
    delete_many = keeper.delete_many

    def all_but_one(names: list[str]) -> None:
        delete_many([name for name in names if name != stuck])
        if stuck in names:
            raise OSError("AccessDenied")

    with pytest.MonkeyPatch.context() as patch:
        # The oldest job, which is in the first batch of each round.
        patch.setattr(retention, "CLEAR_BATCH", 2)
        patch.setattr(keeper, "delete_many", all_but_one)
        assert retention.clear_expired() == 3
    assert list(Job.objects.filter(cleared_at=None)) == [artifact.job]
    assert retention.clear_expired() == 1


def test_a_round_ends_if_the_storage_removes_nothing(artifact: Artifact) -> None:
    other = make_running_job()
    store(other)
    end(other)
    age(artifact.job, days=50)
    age(other, days=40)
    keeper = cast(storages.ArtifactStorage, default_storage)
    asked: list[list[str]] = []

    def refuse(names: list[str]) -> None:
        asked.append(names)
        raise OSError("AccessDenied")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "CLEAR_BATCH", 1)
        patch.setattr(retention, "MAX_LEFT", 1)
        patch.setattr(keeper, "delete_many", refuse)
        assert retention.clear_expired() == 0
    assert asked == [[artifact.storage_name]]


def test_a_slow_storage_does_not_delay_a_round(artifact: Artifact) -> None:
    assert retention.clear_jobs([artifact.job_id], until=time.monotonic()) == set()
    assert len(files(artifact.job)) == 1
    assert Job.objects.get().cleared_at is None


def test_a_round_removes_the_oldest_jobs_in_batches(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "CLEAR_BATCH", 2)
    jobs = [make_running_job() for _ in range(3)]
    for days, job in enumerate(jobs, start=31):
        end(job)
        age(job, days=days)
    youngest, middle, oldest = (job.pk for job in jobs)
    assert retention._batch(without=()) == [oldest, middle]
    assert retention._batch(without=[oldest]) == [middle, youngest]
    assert retention.clear_expired() == 3


def test_a_round_ends_within_its_time_limit(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_running_job()
    end(job)
    age(job, days=31)
    monkeypatch.setattr(retention, "ROUND_SECONDS", 0.0)
    assert retention.clear_expired() == 0
    monkeypatch.undo()
    monkeypatch.setattr(retention, "CLEAR_BATCH", 1)
    assert (retention.clear_expired(), retention.clear_expired()) == (1, 0)


def test_queries_do_not_grow_with_the_jobs_of_a_folder(artifact: Artifact, django_assert_num_queries: Any) -> None:
    jobs = [artifact.job, *(make_running_job() for _ in range(4))]
    for job in jobs[1:]:
        end(job)
    for job in jobs:
        age(job, days=31)
    folders = len({artifact_files.folder_of(job.pk) for job in jobs})
    with django_assert_num_queries(2 + folders * 10):
        assert retention.clear_expired() == 5
