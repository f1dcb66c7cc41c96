"""Downloads during a storage outage."""

import io
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.test import Client as HttpClient
from pytest_django import Settings

from jobs.artifacts import artifact_files
from jobs.models import Artifact
from tests.factories import make_running_job
from tests.faults.proxy import proxy
from tests.s3_server import S3Server
from tests.web_server import Response, WebServer, request, web_server

# The threads of a `web` process
THREADS = 8


@pytest.fixture
def artifact(bucket: S3Server, db: None) -> Artifact:
    """An artifact in the bucket."""
    stored = artifact_files.store(make_running_job(), Artifact.Kind.INPUT, io.BytesIO(b"mage=x\n"))
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


def timed(web: WebServer, path: bytes) -> tuple[Response, float]:
    """Return a response, and how many seconds it took."""
    started = time.monotonic()
    return web.send(request(path)), time.monotonic() - started


@pytest.mark.timeout(240)
@pytest.mark.django_db(transaction=True)
def test_a_bucket_that_hangs_does_not_occupy_web(s3_server: S3Server, bucket: S3Server, tmp_path: Path) -> None:
    stored = artifact_files.store(make_running_job(), Artifact.Kind.INPUT, io.BytesIO(b"mage=x\n"))
    stored.save(force_insert=True)
    path = f"/artifacts/{stored.token}".encode()
    with (
        proxy(("127.0.0.1", s3_server.port), ("127.0.0.1", 0)) as gate,
        ThreadPoolExecutor(3 * THREADS) as clients,
    ):
        variables = s3_server.variables() | {"ARTIFACTS_ENDPOINT_URL": f"http://127.0.0.1:{gate.port}"}
        with web_server(tmp_path / "web.log", variables=variables) as web:
            assert {answer.status for answer in clients.map(lambda _: web.send(request(path)), range(THREADS))} == {
                200
            }
            gate.flows.clear()
            downloads = [clients.submit(timed, web, path) for _ in range(2 * THREADS)]
            # It waits until one of the threads has given up.
            page, page_seconds = timed(web, b"/accounts/login/")
            refused = [pending.result() for pending in downloads]
            assert (page.status, {answer.code() for answer, _ in refused}) == (200, {"queue_unavailable"})
            # Two tries of three seconds each, instead of 30 seconds
            assert max(page_seconds, *(seconds for _, seconds in refused)) < 20
            # The bucket is tried by one thread at a time.
            later = list(clients.map(lambda _: timed(web, path), range(THREADS)))
            assert sorted(seconds for _, seconds in later)[THREADS // 2] < 5
            gate.flows.set()
            deadline = time.monotonic() + 30
            while web.send(request(path)).status != 200:
                assert time.monotonic() < deadline
                time.sleep(0.1)
