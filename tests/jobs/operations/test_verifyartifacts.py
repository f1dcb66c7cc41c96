"""`verifyartifacts`: artifacts without files, and files without jobs."""

import io
import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from clients.models import ApiKey
from jobs.artifacts import artifact_files, storage
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job
from jobs.operations import artifact_audit
from simservice.storages.local import LocalStorage
from tests.conftest import Api
from tests.factories import make_running_job

pytestmark = pytest.mark.usefixtures("each_storage")
UNKNOWN = "12345/678/123456789012345678-1-input.gz"


@pytest.fixture(autouse=True)
def _empty_storage(each_storage: str) -> None:
    """Remove the files of other tests."""
    for parent in default_storage.listdir("")[0]:
        for child in default_storage.listdir(parent)[0]:
            for name in default_storage.listdir(f"{parent}/{child}")[1]:
                default_storage.delete(f"{parent}/{child}/{name}")


@pytest.fixture
def artifact(key: tuple[ApiKey, str]) -> Artifact:
    """One of the two artifacts of an ended job."""
    job = make_running_job(client=key[0].client)
    kinds = [Artifact.Kind.INPUT, Artifact.Kind.STDOUT_LOG]
    rows = artifact_files.store_all(job, [(kind, io.BytesIO(b"text")) for kind in kinds])
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary={"mainActor": None}))
    for row in rows:
        row.save(force_insert=True)
    return rows[0]


@pytest.fixture
def unknown() -> str:
    """A file of a job that does not exist."""
    default_storage.save(UNKNOWN, ContentFile(b"text"))
    return UNKNOWN


def run(*options: str) -> str:
    """Run the command and return its output. Raises CommandError."""
    out = io.StringIO()
    call_command("verifyartifacts", *options, stdout=out)
    return out.getvalue()


def run_in_vain(*options: str) -> str:
    """Run the command, which fails, and return its output."""
    out = io.StringIO()
    with pytest.raises(CommandError, match=r"--record-missing or --remove-unknown\."):
        call_command("verifyartifacts", *options, stdout=out)
    return out.getvalue()


def test_a_complete_storage_is_accepted(artifact: Artifact) -> None:
    assert run() == "Artifacts whose file is missing: 0. Files without a job: 0.\n"


def test_the_download_of_a_missing_file_says_so(artifact: Artifact, caplog: pytest.LogCaptureFixture) -> None:
    default_storage.delete(artifact.storage_name)
    response = HttpClient().get(f"/artifacts/{artifact.token}")
    assert (response.status_code, response.json()["code"]) == (404, "not_found")
    assert "file of this artifact is missing" in response.json()["error"]
    assert f"artifact {artifact.pk}: its file is missing; see `manage.py verifyartifacts`" in caplog.text


def test_a_missing_file_is_listed_and_nothing_changes(artifact: Artifact) -> None:
    default_storage.delete(artifact.storage_name)
    assert f"missing: {artifact.storage_name} (job {artifact.job_id})\n" in run_in_vain("--remove-unknown")
    assert Artifact.objects.count() == 2


def test_a_missing_file_is_recorded_in_the_result(api: Api, artifact: Artifact) -> None:
    default_storage.delete(artifact.storage_name)
    assert "missing: 1, recorded." in run("--record-missing")
    result = api.get(f"jobs/{artifact.job_id}/result").json()["result"]
    assert [each["kind"] for each in result["artifacts"]] == ["stdout_log"]
    lost = {"kind": "input", "name": "input.simc", "stage": None, "reason": "The file was lost."}
    assert result["missingArtifacts"] == [lost]
    assert run() == "Artifacts whose file is missing: 0. Files without a job: 0.\n"


def test_a_missing_file_leaves_the_storage_quota(artifact: Artifact) -> None:
    storage.mend(artifact.job.account_id)
    default_storage.delete(artifact.storage_name)
    run("--record-missing")
    assert storage.stored_bytes(artifact.job.account) == artifact.bytes == 4
    call_command("verifystorage")


@pytest.mark.parametrize("ends", [lambda job: job.update(created_at="2020-01-01T00:00Z"), lambda job: job.delete()])
def test_a_job_that_ends_during_the_check_is_skipped(artifact: Artifact, ends: Callable[..., object]) -> None:
    default_storage.delete(artifact.storage_name)
    (rows,) = artifact_audit.missing_files()
    ends(Job.objects.filter(pk=artifact.job_id))
    artifact_audit.record_missing(rows)
    assert not Job.objects.exclude(missing_artifacts=[]).exists()
    assert not any(artifact_audit.missing_files())


def test_missing_files_of_expired_jobs_do_not_count(artifact: Artifact) -> None:
    artifact_files.remove_all(artifact_files.folder_of(artifact.job_id), [artifact.job_id], until=math.inf)
    Job.objects.update(cleared_at=timezone.now())
    run()


def test_missing_files_of_each_folder_are_found(artifact: Artifact) -> None:
    """Another job of the retention period, ten days older, has no file either."""
    default_storage.delete(artifact.storage_name)
    old_id = artifact.job_id - 10 * 86_400 * 10**8
    old = Job.objects.get(pk=artifact.job_id)
    old.pk, old.share_token, old.created_at = old_id, "another", timezone.now() - timedelta(days=10)
    old.save(force_insert=True)
    Artifact.objects.filter(pk=artifact.pk).update(
        job=old_id, storage_name=f"{artifact_files.folder_of(old_id)}/{old_id}-1-input.gz"
    )
    assert f"(job {old_id})" in run_in_vain()


@pytest.mark.django_db
def test_a_file_without_a_job_is_listed_and_kept(unknown: str) -> None:
    assert f"without a job: {unknown}\n" in run_in_vain("--record-missing")
    assert default_storage.exists(unknown)


def test_files_without_a_job_are_removed(unknown: str, artifact: Artifact) -> None:
    default_storage.save("12345/678/notes.txt", ContentFile(b"not ours"))
    assert run("--remove-unknown").endswith("Files without a job: 1, removed.\n")
    assert not default_storage.exists(unknown)
    assert default_storage.exists("12345/678/notes.txt")
    assert default_storage.exists(artifact.storage_name)
    default_storage.delete("12345/678/notes.txt")


def test_files_that_a_restore_brings_back_are_removed(artifact: Artifact) -> None:
    """Retention had removed them before the backup of the database."""
    Job.objects.filter(pk=artifact.job_id).update(cleared_at=timezone.now())
    assert f"without a job: {artifact.storage_name}\n" in run_in_vain()
    run("--remove-unknown")
    assert not default_storage.exists(artifact.storage_name)


@pytest.mark.django_db
def test_an_unfinished_jobs_files_belong_to_it() -> None:
    artifact_files.store(make_running_job(), Artifact.Kind.INPUT, io.BytesIO(b"text"))
    run()


@pytest.mark.django_db
def test_many_files_are_removed_in_batches(unknown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    default_storage.save(f"{unknown}2", ContentFile(b"text"))
    monkeypatch.setattr(artifact_audit, "MAX_REMOVED_AT_ONCE", 1)
    assert "Files without a job: 2, removed." in run("--remove-unknown")


def test_each_folder_needs_a_fixed_number_of_queries(
    artifact: Artifact, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    other = make_running_job()
    for row in artifact_files.store_all(other, [(kind, io.BytesIO(b"text")) for kind in Artifact.Kind]):
        row.save(force_insert=True)
    folders = len({artifact_files.folder_of(artifact.job_id), artifact_files.folder_of(other.pk)})
    with django_assert_num_queries(2 * folders + 3):
        assert not any(artifact_audit.missing_files())
    with django_assert_num_queries(folders):
        assert not any(artifact_audit.files_without_job())


@pytest.mark.django_db
def test_a_storage_that_does_not_respond_is_an_error(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "file").touch()
    options = {"location": str(tmp_path / "file")}
    backend = f"{LocalStorage.__module__}.{LocalStorage.__qualname__}"
    settings.STORAGES = settings.STORAGES | {"default": {"BACKEND": backend, "OPTIONS": options}}
    with pytest.raises(CommandError, match="does not respond"):
        run()
