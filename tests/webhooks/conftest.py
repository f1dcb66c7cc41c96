"""Fixtures for the tests of webhooks: a receiver, and a client whose endpoint it is."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from clients.audit import SYSTEM
from clients.models import Client
from tests.factories import make_account, make_client
from tests.webhooks.receivers import Authority, Receiver, make_authority, receiving
from webhooks import dispatcher, endpoints, http_client


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def receiver(authority: Authority, settings: Settings) -> Iterator[Receiver]:
    """A receiver that is allowed although it is on this machine, and trusted."""
    with receiving(authority) as running:
        settings.WEBHOOK_ALLOWED_ADDRESSES = [running.address]
        settings.WEBHOOK_CA_FILE = str(authority.ca_file)
        yield running


@pytest.fixture
def hooked(receiver: Receiver, db: None) -> tuple[Client, str]:
    """A client whose webhook goes to the receiver, and its secret."""
    client = make_client(make_account())
    return client, endpoints.configure(client, receiver.url(), by=SYSTEM)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline that tests need not wait long for."""
    monkeypatch.setattr(http_client, "TIMEOUT_SECONDS", 0.4)


@pytest.fixture(autouse=True)
def _leave_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pump end as soon as nothing is due."""
    monkeypatch.setattr(dispatcher, "LINGER_SECONDS", 0)
