"""Fixtures for the tests of webhooks: a receiver, and a client whose webhook is sent to it."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing

import pytest
from pytest_django import Settings

from clients.audit import SYSTEM
from clients.models import Client
from tests.factories import make_account, make_client
from tests.webhooks.receivers import Authority, Receiver, make_authority, receiving
from webhooks import dispatcher, endpoints, http_client
from webhooks.connection_pool import ConnectionPool
from webhooks.http_client import Response

Post = Callable[..., Response]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def receiver(authority: Authority, settings: Settings) -> Iterator[Receiver]:
    """A receiver on this machine whose address is allowed and whose certificate is trusted."""
    with receiving(authority) as running:
        settings.WEBHOOK_ALLOWED_ADDRESSES = [running.address]
        settings.WEBHOOK_CA_FILE = str(authority.ca_file)
        yield running


@pytest.fixture
def connections() -> Iterator[ConnectionPool]:
    with closing(ConnectionPool()) as pool:
        yield pool


@pytest.fixture
def post(connections: ConnectionPool) -> Post:
    """Return a function that posts over the kept connections."""

    def post(url: str, *, client_id: int = 1, body: bytes = b"{}") -> Response:
        return http_client.post(url, {}, body, client_id=client_id, connections=connections)

    return post


@pytest.fixture
def resolve_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets the addresses of all names."""

    def resolve_to(*addresses: str) -> None:
        future = Future[list[str]]()
        future.set_result(list(addresses))
        monkeypatch.setattr("simservice.network.addresses.ask_resolver", lambda *_: future)

    return resolve_to


@pytest.fixture
def configured(receiver: Receiver, db: None) -> tuple[Client, str]:
    """A client whose webhook is sent to the receiver, and its secret."""
    client = make_client(make_account())
    return client, endpoints.configure(client, receiver.url(), by=SYSTEM)


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short timeout of requests."""
    monkeypatch.setattr(http_client, "TIMEOUT_SECONDS", 0.4)


@pytest.fixture(autouse=True)
def _no_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a dispatcher end as soon as nothing is due."""
    monkeypatch.setattr(dispatcher, "LINGER_SECONDS", 0)
