"""Consistent, read-only snapshots of the database."""

import pytest
from django.db import InternalError

from simservice.postgresql.connections import snapshot
from tests.factories import make_account


@pytest.mark.django_db(transaction=True)
def test_a_snapshot_allows_no_writes() -> None:
    with pytest.raises(InternalError, match="read-only"), snapshot():
        make_account()
