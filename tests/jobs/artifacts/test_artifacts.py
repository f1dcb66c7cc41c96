"""Storage of a job's files, on disk and in a bucket: completely or not at all."""

import io
import itertools
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone
from pytest_django import Settings

from jobs.artifacts import artifact_files
from jobs.artifacts.artifact_files import NotStored
from jobs.errors import WorkerStops
from jobs.execution import attempt
from jobs.lifecycle import job_moves
from jobs.models import Artifact, Build, Job, Run
from jobs.queue import sweep
from simservice import shutdown
from simservice.shutdown import Stop
from tests.concurrency import while_locked
from tests.factories import make_running_job
from tests.jobs.simulators import claim, content, run
from tests.s3_server import S3Server

KIND = Artifact.Kind.INPUT


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three attempts without delays."""
    monkeypatch.setattr(artifact_files, "SAVE_WAITS_SECONDS", (0, 0))


def before_attempt(monkeypatch: pytest.MonkeyPatch, number: int, action: Callable[[], object]) -> None:
    """Run an action before the second or third attempt at a save."""
    has_time, tries = shutdown.stop.has_time, itertools.count(2)

    def act() -> bool:
        result = has_time()
        if next(tries) == number:
            action()
        return result

    monkeypatch.setattr(shutdown.stop, "has_time", act)


def store(job: Job, data: bytes = b"mage=x\n") -> Artifact:
    return artifact_files.store(job, KIND, io.BytesIO(data))


def stored_names(job: Job) -> list[str]:
    """Return the names of a job's files in the storage."""
    return [name for name in default_storage.listdir(artifact_files.folder_of(job.pk))[1] if str(job.pk) in name]


@pytest.mark.usefixtures("each_storage")
def test_every_output_of_a_job_can_be_read(minisim: Build) -> None:
    job = run(html=True, csv=True)
    assert job.status == "completed"
    for artifact in job.artifacts.all():
        assert len(content(job, Artifact.Kind(artifact.kind))) == artifact.bytes
    assert len(stored_names(job)) == 6


@pytest.mark.django_db
@pytest.mark.usefixtures("each_storage")
def test_saving_again_replaces_a_file() -> None:
    job = make_running_job()
    first, second = store(job), store(job, b"another")
    assert first.storage_name == second.storage_name
    second.save(force_insert=True)
    assert content(job, KIND) == b"another"
    assert len(stored_names(job)) == 1


@pytest.mark.django_db
def test_a_save_is_retried_until_the_bucket_is_back(bucket: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.stop()
    before_attempt(monkeypatch, 3, bucket.start)
    job = make_running_job()
    store(job).save(force_insert=True)
    assert content(job, KIND) == b"mage=x\n"


def break_disk(settings: Settings, path: Path) -> Path:
    """Store artifacts in a folder that does not exist yet; return its path."""
    path.write_text("not a folder")
    options = {"location": str(path)}
    settings.STORAGES = settings.STORAGES | {"default": settings.STORAGES["default"] | {"OPTIONS": options}}
    return path


def break_bucket(settings: Settings, s3_server: S3Server) -> None:
    """Store artifacts in a bucket that rejects the key."""
    settings.STORAGES = s3_server.storages(secret_access_key="another")


@pytest.fixture(params=["disk", "bucket"])
def broken(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path, s3_server: S3Server) -> None:
    """Make every save fail."""
    if request.param == "disk":
        break_disk(settings, tmp_path / "artifacts")
    else:
        break_bucket(settings, s3_server)


@pytest.mark.usefixtures("broken")
def test_a_job_does_not_complete_without_its_report(minisim: Build) -> None:
    job = run()
    assert (job.status, job.attempt, job.error_code) == ("running", 1, None)
    assert Run.objects.get(job=job).exit_code == "0"
    assert not Artifact.objects.exists()


def lose_job(job: Job) -> Job:
    """Expire the job's lease and sweep."""
    Job.objects.filter(pk=job.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert sweep.recover_expired_leases() == 1
    return Job.objects.get(pk=job.pk)


def test_another_attempt_stores_the_files_that_failed(minisim: Build, settings: Settings, tmp_path: Path) -> None:
    path = break_disk(settings, tmp_path / "artifacts")
    job = lose_job(run())
    assert (job.status, job.retried) == ("queued", True)
    path.unlink()
    attempt.execute(claim())
    job = Job.objects.get(pk=job.pk)
    assert (job.status, job.attempt) == ("completed", 2)
    assert set(job.artifacts.values_list("attempt", flat=True)) == {2}


@pytest.mark.usefixtures("broken")
def test_a_job_is_interrupted_if_its_files_cannot_be_stored(minisim: Build, settings: Settings) -> None:
    settings.MAX_ATTEMPTS = 1
    job = lose_job(run())
    assert (job.status, job.error_code, job.credits_consumed) == ("failed", "execution_interrupted", 0)


@pytest.mark.django_db
def test_a_save_is_retried_until_the_disk_recovers(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = break_disk(settings, tmp_path / "artifacts")
    before_attempt(monkeypatch, 2, path.unlink)
    job = make_running_job()
    store(job).save(force_insert=True)
    assert content(job, KIND) == b"mage=x\n"


@pytest.mark.django_db
@pytest.mark.usefixtures("broken")
def test_a_stopping_worker_does_not_wait_for_the_storage(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.STOP_SECONDS = 0
    monkeypatch.setattr(shutdown, "stop", Stop())
    shutdown.stop.request()
    with pytest.raises(WorkerStops):
        store(make_running_job())


@pytest.mark.django_db
def test_a_full_disk_leaves_no_partial_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    job = make_running_job()
    with pytest.raises(NotStored, match="No space left"):
        store(job)
    assert stored_names(job) == []


@pytest.mark.django_db
def test_retention_removes_files_that_could_not_be_deleted(
    settings: Settings, s3_server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    break_bucket(settings, s3_server)
    artifact_files.discard([Artifact(pk=1, storage_name="17000/123/1-1-input.gz")])
    assert "stays until its job's retention ends" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_files_stay_if_a_commit_in_progress_saves_their_rows() -> None:
    job = make_running_job()
    stored = store(job)
    while_locked(
        "jobs_job WHERE id = %s",
        [job.pk],
        change=lambda: attempt.conclude(job, job_moves.INTERNAL, [stored]),
        move=lambda: artifact_files.discard([stored]),
    )
    assert content(job, KIND) == b"mage=x\n"


@pytest.mark.django_db
def test_an_unreadable_file_is_not_stored() -> None:
    with Path("/proc/self/mem").open("rb") as unreadable, pytest.raises(NotStored):
        artifact_files.store(make_running_job(), KIND, unreadable)
