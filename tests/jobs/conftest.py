"""Storages for artifacts, a fake game API behind the proxy, and a machine that lacks no build."""

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from django.core.files.storage import default_storage
from pytest_django import Settings

from jobs.execution import attempt, game_api_proxy
from jobs.queue import claims
from jobs.queue.expiring_set import ExpiringSet
from simservice.storages import s3
from simservice.storages.s3 import BucketStorage
from tests.faults.faulty_bucket import FaultyBucket, faulty_bucket
from tests.jobs.game_api import FakeGameApi, ProxyClient, echo, proxying, serving
from tests.s3_server import S3Server
from tests.sandbox.conftest import open_directory

__all__ = ["open_directory"]


@pytest.fixture(autouse=True)
def _no_missing_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what earlier tests of the process read: the builds that this machine lacked, and the first ids."""
    monkeypatch.setattr(attempt, "absent_builds", ExpiringSet[UUID](seconds=60))
    monkeypatch.setattr(claims, "branches_without_builds", ExpiringSet[str](seconds=300))
    monkeypatch.setattr(claims, "first_ids", claims.FirstIds())


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server, started for the first test that uses it."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def bucket_storage(s3_server: S3Server) -> BucketStorage:
    """The bucket's storage, created once because boto3 needs a quarter of a second."""
    return BucketStorage(**s3_server.storages()["default"]["OPTIONS"])


@pytest.fixture
def bucket(s3_server: S3Server, bucket_storage: BucketStorage, settings: Settings) -> Iterator[S3Server]:
    """Store artifacts in a bucket; the test may stop its server."""
    settings.STORAGES = s3_server.storages()
    # Django drops it when the setting changes back.
    default_storage._wrapped = bucket_storage  # type: ignore[attr-defined]
    yield s3_server
    if s3_server.process is None:
        s3_server.start()


@pytest.fixture
def faulty(s3_server: S3Server, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyBucket]:
    """Store artifacts in a bucket that can be disturbed, with short waits for it."""
    monkeypatch.setattr(s3, "READ_SECONDS", 0.5)
    with faulty_bucket(s3_server) as server:
        settings.STORAGES = s3_server.storages(endpoint_url=server.url)
        options = settings.STORAGES["default"]["OPTIONS"]
        default_storage._wrapped = BucketStorage(**options)  # type: ignore[attr-defined]
        yield server


@pytest.fixture(params=["disk", "bucket"])
def each_storage(request: pytest.FixtureRequest) -> str:
    """Run the test once with each storage; return its name."""
    if request.param == "bucket":
        request.getfixturevalue("bucket")
    return str(request.param)


@pytest.fixture
def game_api() -> Iterator[FakeGameApi]:
    """A fake game API that echoes."""
    with serving(echo) as running:
        yield running


@pytest.fixture
def proxy(game_api: FakeGameApi) -> Iterator[ProxyClient]:
    """A client of a proxy to the echoing game API."""
    with proxying(game_api) as running:
        yield running


@pytest.fixture
def set_limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that changes limits of the proxy by the names of their constants."""

    def change(**values: float) -> None:
        for name, value in values.items():
            monkeypatch.setattr(game_api_proxy, name, value)

    return change
