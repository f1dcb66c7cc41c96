"""The real web server, one per test module."""

import io
import secrets
from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from jobs.artifacts import artifact_files
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact
from tests.emptying import empty_database
from tests.factories import make_key, make_running_job
from tests.web_server import WebServer, web_server


@pytest.fixture(scope="module")
def web(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WebServer]:
    """The web server, with only its database and Redis."""
    with web_server(tmp_path_factory.mktemp("web") / "web.log") as server:
        yield server


@pytest.fixture(scope="module")
def bearer(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[bytes]:
    """An `Authorization` header of an account that the server's own connections can see."""
    with django_db_blocker.unblock():
        yield f"Authorization: Bearer {make_key()[1]}".encode()
        empty_database()


@pytest.fixture(scope="module")
def maintained(web: WebServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """A web server during maintenance."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAINTENANCE_SECONDS", "60")
        with web_server(tmp_path_factory.mktemp("maintained") / "web.log") as server:
            yield server


@pytest.fixture(scope="module")
def large_file(bearer: bytes, django_db_blocker: DjangoDbBlocker) -> bytes:
    """The address of an artifact larger than any socket buffer."""
    with django_db_blocker.unblock():
        job = make_running_job()
        stored = artifact_files.store(job, Artifact.Kind.JSON_REPORT, io.BytesIO(secrets.token_bytes(24 << 20)))
        assert job_moves.finish(job, Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary={}))
        stored.save(force_insert=True)
        return f"/artifacts/{stored.token}".encode()
