"""Endpoints and their secrets."""

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
from tests.concurrency import at_once
from tests.factories import make_account, make_client
from tests.webhooks.receivers import Receiver
from webhooks import endpoints, maintenance
from webhooks.addresses import Refused
from webhooks.endpoints import NotPossible
from webhooks.models import Endpoint

SECRET = re.compile(r"whsec_[A-Za-z0-9_-]{43}\Z")
pytestmark = pytest.mark.django_db


def signing(client: Client) -> list[str]:
    """Return what a delivery to a client would be signed with now."""
    return list(endpoints.secrets_of(Endpoint.objects.get(client=client), now=timezone.now()))


def test_a_secret_is_shown_once_and_kept_encrypted(hooked: tuple[Client, str]) -> None:
    client, secret = hooked
    assert SECRET.match(secret)
    with connection.cursor() as cursor:
        cursor.execute("SELECT webhooks_endpoint::text FROM webhooks_endpoint")
        (row,) = cursor.fetchone()
    assert secret not in row
    assert signing(client) == [secret]


def test_the_default_client_can_have_none(receiver: Receiver) -> None:
    client = default_client(make_account())
    with pytest.raises(NotPossible, match="default client"):
        endpoints.configure(client, receiver.url(), by=SYSTEM)
    assert not Endpoint.objects.exists()


def test_the_database_refuses_one_for_the_default_client() -> None:
    client = default_client(make_account())
    with pytest.raises(IntegrityError, match="endpoint_not_of_default_client"), transaction.atomic():
        Endpoint.objects.create(client=client, url="https://example.com/", secret="x")


def test_the_database_refuses_to_make_a_client_with_one_the_default(hooked: tuple[Client, str]) -> None:
    client, _ = hooked
    default_client(client.account).delete()
    with pytest.raises(IntegrityError, match="endpoint_not_of_default_client"), transaction.atomic():
        Client.objects.filter(pk=client.pk).update(is_default=True, name=DEFAULT_CLIENT)


def test_an_enabled_endpoint_is_not_configured_again(hooked: tuple[Client, str], receiver: Receiver) -> None:
    client, secret = hooked
    with pytest.raises(NotPossible, match="enabled already"):
        endpoints.configure(client, receiver.url("/201"), by=SYSTEM)
    assert signing(client) == [secret]


@pytest.mark.django_db(transaction=True)
def test_of_many_who_configure_at_once_one_succeeds(receiver: Receiver) -> None:
    client, secrets = make_client(make_account()), []

    def configure() -> None:
        try:
            secrets.append(endpoints.configure(client, receiver.url(), by=SYSTEM))
        except NotPossible:
            return

    at_once(6, configure)
    assert signing(client) == secrets


def test_disabling_forgets_the_secrets_and_enabling_makes_a_new_one(hooked: tuple[Client, str]) -> None:
    client, secret = hooked
    endpoints.rotate(client, by=SYSTEM)
    endpoints.disable(client, by=SYSTEM)
    endpoints.disable(client, by=SYSTEM)
    endpoint = Endpoint.objects.get()
    assert (endpoint.secret, endpoint.old_secret, endpoint.disabled_for) == ("", "", "owner")
    assert endpoint.tell_owners_at is None
    assert not endpoints.is_enabled(client)
    fresh = endpoints.enable(client, by=SYSTEM)
    assert fresh != secret
    assert signing(client) == [fresh]
    assert endpoints.is_enabled(client)


def test_a_rotation_keeps_the_old_secret_beside_the_new_one(hooked: tuple[Client, str]) -> None:
    client, secret = hooked
    fresh = endpoints.rotate(client, overlap=timedelta(hours=1), by=SYSTEM)
    assert signing(client) == [secret, fresh]
    Endpoint.objects.update(old_secret_until=Now() - timedelta(seconds=1))
    assert signing(client) == [fresh]
    assert (maintenance.forget_secrets(), maintenance.forget_secrets()) == (1, 0)
    assert Endpoint.objects.get().old_secret == ""
    assert signing(client) == [fresh]


def test_a_rotation_without_an_overlap_forgets_the_old_secret(hooked: tuple[Client, str]) -> None:
    client, _ = hooked
    endpoints.rotate(client, overlap=timedelta(days=7), by=SYSTEM)
    fresh = endpoints.rotate(client, by=SYSTEM)
    assert signing(client) == [fresh]
    assert Endpoint.objects.get().old_secret == ""


@pytest.mark.parametrize("overlap", [timedelta(seconds=-1), timedelta(days=7, seconds=1)])
def test_an_overlap_has_bounds(overlap: timedelta, hooked: tuple[Client, str]) -> None:
    with pytest.raises(NotPossible, match="between 0 and 7 days"):
        endpoints.rotate(hooked[0], overlap=overlap, by=SYSTEM)


def test_a_disabled_endpoint_is_not_rotated(hooked: tuple[Client, str]) -> None:
    endpoints.disable(hooked[0], by=SYSTEM)
    with pytest.raises(NotPossible, match="disabled"):
        endpoints.rotate(hooked[0], by=SYSTEM)


@pytest.mark.parametrize("act", [endpoints.enable, endpoints.disable, endpoints.rotate])
def test_without_an_endpoint_nothing_can_be_done(act: object) -> None:
    client = make_client(make_account())
    with pytest.raises(NotPossible, match="no webhook"):
        act(client, by=SYSTEM)  # type: ignore[operator]
    assert endpoints.of(client) is None


def test_another_url_must_be_acceptable_too(hooked: tuple[Client, str], receiver: Receiver) -> None:
    client, secret = hooked
    for url in ("http://example.com/", "https://10.0.0.1/", "https://localhost/"):
        with pytest.raises(Refused):
            endpoints.set_url(client, url, by=SYSTEM)
    endpoints.set_url(client, receiver.url("/201"), by=SYSTEM)
    assert Endpoint.objects.get().url == receiver.url("/201")
    assert signing(client) == [secret]


def test_a_name_that_leads_nowhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [])
    with pytest.raises(Refused, match="does not lead to any address"):
        endpoints.configure(make_client(make_account()), "https://hooks.example.com/", by=SYSTEM)


def test_a_secret_outlives_a_change_of_the_key(hooked: tuple[Client, str], settings: Settings) -> None:
    client, secret = hooked
    settings.WEBHOOK_SECRETS_KEYS = ["a new one", *settings.WEBHOOK_SECRETS_KEYS]
    assert signing(client) == [secret]
    fresh = endpoints.rotate(client, by=SYSTEM)
    settings.WEBHOOK_SECRETS_KEYS = ["a new one"]
    Endpoint.objects.update(old_secret="", old_secret_until=None)
    assert signing(client) == [fresh]
