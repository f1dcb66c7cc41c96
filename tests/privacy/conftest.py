"""The storages of the tests of jobs."""

from tests.jobs.conftest import bucket, bucket_storage, each_storage, s3_server

__all__ = ["bucket", "bucket_storage", "each_storage", "s3_server"]
