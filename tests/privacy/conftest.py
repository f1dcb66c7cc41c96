"""An owner with data of every kind, and the storages of the tests of jobs."""

import pytest

from clients.models import Membership
from tests.jobs.conftest import bucket, bucket_storage, each_storage, s3_server
from tests.privacy.data import make_full_account

__all__ = ["bucket", "bucket_storage", "each_storage", "s3_server"]


@pytest.fixture
def owner() -> Membership:
    """Return the owner of an account with data of every kind."""
    return make_full_account()
