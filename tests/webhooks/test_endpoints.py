"""Webhook endpoints and their secrets."""

import re
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from clients.accounts import default_client
from clients.audit import SYSTEM
from clients.models import DEFAULT_CLIENT, Client
from simservice.network.addresses import AddressRefused
from tests.concurrency import at_once
from tests.factories import make_account, make_client
from tests.webhooks.receivers import Receiver
from webhooks import endpoints, maintenance
from webhooks.endpoints import EndpointError
from webhooks.models import Endpoint

SECRET = re.compile(r"whsec_[A-Za-z0-9_-]{43}\Z")
pytestmark = pytest.mark.django_db


def secrets_of(client: Client) -> list[str]:
    """Return the secrets that would sign a delivery to a client now."""
    return list(endpoints.secrets_of(Endpoint.objects.get(client=client), now=timezone.now()))


def test_a_secret_is_stored_encrypted(configured: tuple[Client, str]) -> None:
    client, secret = configured
    assert SECRET.match(secret)
    with connection.cursor() as cursor:
        cursor.execute("SELECT webhooks_endpoint::text FROM webhooks_endpoint")
        (row,) = cursor.fetchone()
    assert secret not in row
    assert secrets_of(client) == [secret]


def test_a_default_client_cannot_have_a_webhook(receiver: Receiver) -> None:
    client = default_client(make_account())
    with pytest.raises(EndpointError, match="built-in client"):
        endpoints.configure(client, receiver.url(), by=SYSTEM)
    assert not Endpoint.objects.exists()


def test_the_database_refuses_one_for_a_default_client() -> None:
    client = default_client(make_account())
    with pytest.raises(IntegrityError, match="endpoint_not_of_default_client"), transaction.atomic():
        Endpoint.objects.create(client=client, url="https://example.com/", secret="x")


def test_a_client_with_a_webhook_cannot_become_the_default(configured: tuple[Client, str]) -> None:
    client, _ = configured
    default_client(client.account).delete()
    with pytest.raises(IntegrityError, match="endpoint_not_of_default_client"), transaction.atomic():
        Client.objects.filter(pk=client.pk).update(is_default=True, name=DEFAULT_CLIENT)


def test_an_enabled_endpoint_cannot_be_configured(configured: tuple[Client, str], receiver: Receiver) -> None:
    client, secret = configured
    with pytest.raises(EndpointError, match="already enabled"):
        endpoints.configure(client, receiver.url("/201"), by=SYSTEM)
    assert secrets_of(client) == [secret]


@pytest.mark.django_db(transaction=True)
def test_only_one_of_many_concurrent_calls_configures(receiver: Receiver) -> None:
    client, secrets = make_client(make_account()), []

    def configure() -> None:
        try:
            secrets.append(endpoints.configure(client, receiver.url(), by=SYSTEM))
        except EndpointError:
            return

    at_once(6, configure)
    assert secrets_of(client) == secrets


def test_disabling_deletes_and_enabling_replaces_the_secret(
    configured: tuple[Client, str], receiver: Receiver
) -> None:
    client, secret = configured
    endpoints.rotate(client, by=SYSTEM)
    endpoints.disable(client, by=SYSTEM)
    endpoints.disable(client, by=SYSTEM)
    endpoint = Endpoint.objects.get()
    assert (endpoint.secret, endpoint.old_secret, endpoint.disabled_for) == ("", "", "owner")
    assert endpoint.tell_owners_at is None
    assert not endpoints.is_enabled(client)
    fresh = endpoints.configure(client, receiver.url(), by=SYSTEM)
    assert fresh != secret
    assert secrets_of(client) == [fresh]
    assert endpoints.is_enabled(client)


def test_both_secrets_sign_during_an_overlap(configured: tuple[Client, str]) -> None:
    client, secret = configured
    fresh = endpoints.rotate(client, overlap=timedelta(hours=1), by=SYSTEM)
    assert secrets_of(client) == [secret, fresh]
    Endpoint.objects.update(old_secret_until=Now() - timedelta(seconds=1))
    assert secrets_of(client) == [fresh]
    assert (maintenance.delete_old_secrets(), maintenance.delete_old_secrets()) == (1, 0)
    assert Endpoint.objects.get().old_secret == ""
    assert secrets_of(client) == [fresh]


def test_without_an_overlap_only_the_new_secret_signs(configured: tuple[Client, str]) -> None:
    client, _ = configured
    endpoints.rotate(client, overlap=timedelta(days=7), by=SYSTEM)
    fresh = endpoints.rotate(client, by=SYSTEM)
    assert secrets_of(client) == [fresh]
    assert Endpoint.objects.get().old_secret == ""


@pytest.mark.parametrize("overlap", [timedelta(seconds=-1), timedelta(days=7, seconds=1)])
def test_an_overlap_is_at_most_seven_days(overlap: timedelta, configured: tuple[Client, str]) -> None:
    with pytest.raises(EndpointError, match="between 0 and 7 days"):
        endpoints.rotate(configured[0], overlap=overlap, by=SYSTEM)


def test_a_disabled_endpoint_cannot_be_rotated(configured: tuple[Client, str]) -> None:
    endpoints.disable(configured[0], by=SYSTEM)
    with pytest.raises(EndpointError, match="disabled"):
        endpoints.rotate(configured[0], by=SYSTEM)


@pytest.mark.parametrize("operation", [endpoints.disable, endpoints.rotate])
def test_a_client_without_an_endpoint_raises_an_error(operation: object) -> None:
    client = make_client(make_account())
    with pytest.raises(EndpointError, match="no webhook"):
        operation(client, by=SYSTEM)  # type: ignore[operator]
    assert endpoints.of(client) is None


def test_a_changed_url_is_checked_too(configured: tuple[Client, str], receiver: Receiver) -> None:
    client, secret = configured
    for url in ("http://example.com/", "https://10.0.0.1/", "https://localhost/"):
        with pytest.raises(AddressRefused):
            endpoints.set_url(client, url, by=SYSTEM)
    endpoints.set_url(client, receiver.url("/201"), by=SYSTEM)
    assert Endpoint.objects.get().url == receiver.url("/201")
    assert secrets_of(client) == [secret]


def test_a_name_that_does_not_resolve_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [])
    with pytest.raises(AddressRefused, match="does not resolve to any address"):
        endpoints.configure(make_client(make_account()), "https://hooks.example.com/", by=SYSTEM)


def test_a_secret_survives_a_key_rotation(configured: tuple[Client, str], settings: Settings) -> None:
    client, secret = configured
    settings.WEBHOOK_SECRETS_KEYS = ["a new key", *settings.WEBHOOK_SECRETS_KEYS]
    assert secrets_of(client) == [secret]
    fresh = endpoints.rotate(client, by=SYSTEM)
    settings.WEBHOOK_SECRETS_KEYS = ["a new key"]
    Endpoint.objects.update(old_secret="", old_secret_until=None)
    assert secrets_of(client) == [fresh]
