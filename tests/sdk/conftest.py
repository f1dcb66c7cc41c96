"""Clients of the stack and of a fake service for the tests of the library, and a proxy before the stack."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simservice_client import Client
from tests.sdk.commands import Simctl
from tests.sdk.fake_service import KEY, Service, serving
from tests.sdk.fault_proxy import FaultProxy, disturbing
from tests.stack import Stack


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


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as running:
        yield running


@pytest.fixture
def simctl(service: Service, tmp_path: Path) -> Simctl:
    return Simctl.of(tmp_path, SIMSERVICE_URL=service.url, SIMSERVICE_API_KEY=KEY)
