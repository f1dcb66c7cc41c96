"""One stack for the tests of the library, and a proxy before it."""

from collections.abc import Iterator

import psycopg
import pytest

from simservice_client import Client
from tests.sdk.fault_proxy import FaultProxy, disturbing
from tests.stack import Stack, running_stack

# Raises the limits of the plan, which would otherwise refuse hundreds of jobs at once.
ROOM = """
    UPDATE billing_plan
    SET submissions_per_minute = %(most)s, submission_bytes_per_minute = 1e12, reads_per_minute = %(most)s,
        max_active_jobs = %(most)s
"""


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stack")) as started:
        with psycopg.connect(started.ready["databaseUrl"]) as connection:
            connection.execute(ROOM, {"most": 1_000_000})
        yield started


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    with Client(stack.ready["url"], stack.ready["apiKey"]) as opened:
        yield opened


@pytest.fixture
def proxy(stack: Stack) -> Iterator[FaultProxy]:
    with disturbing(stack.ready["url"]) as running:
        yield running


@pytest.fixture
def disturbed(stack: Stack, proxy: FaultProxy) -> Iterator[Client]:
    """A client whose requests pass the proxy."""
    with Client(proxy.url, stack.ready["apiKey"], timeout=5) as opened:
        yield opened
