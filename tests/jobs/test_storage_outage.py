"""Downloads during a storage outage."""

import io

import pytest
from django.test import Client as HttpClient
from pytest_django import Settings

from jobs import artifacts
from jobs.models import Artifact
from tests.factories import make_running_job
from tests.s3_server import S3Server


@pytest.fixture
def artifact(bucket: S3Server, db: None) -> Artifact:
    """An artifact in the bucket."""
    stored = artifacts.store(make_running_job(), Artifact.Kind.INPUT, io.BytesIO(b"mage=x\n"))
    stored.save(force_insert=True)
    return stored


@pytest.mark.parametrize(
    "options",
    [{"endpoint_url": "http://127.0.0.1:1"}, {"secret_access_key": "another"}, {"bucket": "missing"}],
    ids=["away", "wrong key", "no bucket"],
)
def test_a_storage_failure_is_not_a_404(
    artifact: Artifact, settings: Settings, bucket: S3Server, options: dict[str, str]
) -> None:
    settings.STORAGES = bucket.storages(**options)
    response = HttpClient().get(f"/artifacts/{artifact.token}")
    assert (response.status_code, response.json()["code"]) == (503, "queue_unavailable")
    assert response.headers["Cache-Control"] == "no-store"
    assert response.json()["meta"] == {"reason": "storage_unavailable", "queueHealth": "ok"}
    assert response.headers["Retry-After"]
