"""One stack for all end-to-end tests."""

from collections.abc import Iterator

import pytest

from tests.stack import Stack, running_stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with one simulation slot, in a folder of its own."""
    # Short leases, so that the loss of a worker does not have to be waited for.
    chosen = {"SIM_SLOTS": "1", "LEASE_SECONDS": "6", "HEARTBEAT_SECONDS": "2"}
    with running_stack(tmp_path_factory.mktemp("stack"), **chosen) as started:
        yield started
