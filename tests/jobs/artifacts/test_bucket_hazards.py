"""A bucket that fails in some way while retention removes files, or during a download."""

import gzip
import io
import os
import zlib
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db.models import F
from django.test import Client as HttpClient

from jobs.artifacts import artifact_files, retention
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job
from tests.factories import make_running_job
from tests.faults.faulty_bucket import FaultyBucket

pytestmark = pytest.mark.django_db(transaction=True)

LISTS = ["slow", "500", "read-only", "closed", "empty", "short", "cut", "forgotten", "wrong bytes", "wrong number"]
DELETIONS = ["slow", "500", "read-only", "closed", "empty", "cut", "forgotten"]
DOWNLOADS = [
    "slow",
    "500",
    "read-only",
    "silent",
    "closed",
    "wrong bytes",
    "empty",
    "short",
    "cut",
    "another object",
]
CONTENT_BYTES = 600_000


@pytest.fixture
def artifact(faulty: FaultyBucket) -> Artifact:
    """An artifact of a completed job in the bucket, beside one of the same kind and size."""
    for _ in range(2):
        job = make_running_job()
        content = io.BytesIO(os.urandom(CONTENT_BYTES))
        stored = artifact_files.store(job, Artifact.Kind.STDOUT_LOG, content)
        outcome = Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary={"mainActor": None})
        assert job_moves.finish(job, outcome, artifacts=[stored])
    return stored


def files_of(job: Job) -> list[str]:
    return artifact_files._files_of(artifact_files.folder_of(job.pk), [job.pk])


@pytest.mark.parametrize(
    ("step", "hazard"), [*(("list", each) for each in LISTS), *(("delete", each) for each in DELETIONS)]
)
def test_a_hazard_during_retention(artifact: Artifact, faulty: FaultyBucket, step: str, hazard: str) -> None:
    Job.objects.filter(pk=artifact.job_id).update(created_at=F("created_at") - timedelta(days=365))
    with faulty.disturbed(step, hazard) as disturbance:
        cleared = retention.clear_expired()
    assert disturbance.met
    assert cleared == 0 or files_of(artifact.job) == []
    assert cleared == 1 or hazard != "slow"
    assert retention.clear_expired() == 1 - cleared
    assert files_of(artifact.job) == []


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize("hazard", DOWNLOADS)
def test_a_hazard_during_a_download(artifact: Artifact, faulty: FaultyBucket, hazard: str, encoding: str) -> None:
    with faulty.disturbed("download", hazard) as disturbance:
        downloaded = download(artifact, encoding)
    assert disturbance.met
    assert downloaded == (CONTENT_BYTES if hazard == "slow" else None)
    assert download(artifact, encoding) == CONTENT_BYTES


def download(artifact: Artifact, encoding: str) -> int | None:
    """Return how many bytes a client receives; None after an error, or if the response is not complete."""
    response = HttpClient().get(f"/artifacts/{artifact.token}", headers={"accept-encoding": encoding})
    if response.status_code != 200:
        assert response.status_code == 503
        return None
    with suppress(OSError, EOFError, zlib.error):
        content = response.getvalue()
        assert len(content) == int(response["Content-Length"])
        return len(gzip.decompress(content) if encoding == "gzip" else content)
    return None
