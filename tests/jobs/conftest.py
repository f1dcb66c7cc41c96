"""Places that tests need: a folder open to every user, and artifacts on the disk or in a real S3 bucket."""

from collections.abc import Iterator

import pytest
from django.core.files.storage import default_storage
from pytest_django import Settings

from simservice.storages.s3 import BucketStorage
from tests.jobs.simulator.conftest import open_place
from tests.s3_server import S3Server

__all__ = ["open_place"]


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server, started for the first test that wants it."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def bucket_storage(s3_server: S3Server) -> BucketStorage:
    """The bucket; made once, as that takes boto3 a quarter of a second."""
    return BucketStorage(**s3_server.storages()["default"]["OPTIONS"])


@pytest.fixture
def bucket(s3_server: S3Server, bucket_storage: BucketStorage, settings: Settings) -> Iterator[S3Server]:
    """Artifacts in a bucket, whose server the test may stop."""
    settings.STORAGES = s3_server.storages()
    # Django forgets it when the setting changes back.
    default_storage._wrapped = bucket_storage  # type: ignore[attr-defined]
    yield s3_server
    if s3_server.process is None:
        s3_server.start()


@pytest.fixture(params=["disk", "bucket"])
def each_storage(request: pytest.FixtureRequest) -> str:
    """Run the test once with each storage, whose name it gets."""
    if request.param == "bucket":
        request.getfixturevalue("bucket")
    return str(request.param)
