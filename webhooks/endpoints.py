"""A client's webhook endpoint: its URL and its signing secret.

A secret is returned once, when it is created, and stored encrypted. Callers check permissions.
"""

import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from billing.models import Account
from clients import audit
from clients.audit import Action, Actor
from clients.models import Client
from simservice import encryption
from simservice.clocks import database_time
from simservice.encryption import EncryptedValue, Purpose
from simservice.network import addresses
from webhooks.models import Endpoint

PREFIX = "whsec_"
SECRET_BYTES = 32
NO_OVERLAP = timedelta(0)
MAX_OVERLAP = timedelta(days=7)
# For name resolution while a page is loading.
LOOKUP_SECONDS = 5.0
_NO_OLD_SECRET = {"old_secret": "", "old_secret_until": None}
_ENABLED = {
    "disabled_at": None,
    "disabled_for": "",
    "failing_since": None,
    "tell_owners_at": None,
    **_NO_OLD_SECRET,
}


class EndpointError(Exception):
    """The client or its endpoint does not allow the operation; the message is a sentence for the owner."""


def check_url(url: str) -> None:
    """Raise addresses.AddressRefused if webhooks cannot use a URL, by its form or by what its host resolves to.

    Resolves a name: call it outside of transactions.
    """
    target = addresses.parse(url)
    try:
        addresses.resolve(target, seconds=LOOKUP_SECONDS)
    except addresses.NotResolved as failed:
        raise addresses.AddressRefused(str(failed)) from None


def of(client: Client) -> Endpoint | None:
    """Return a client's endpoint, enabled or not, or None."""
    return Endpoint.objects.filter(client=client).first()


def failing() -> QuerySet[Endpoint]:
    """Return the enabled endpoints of all accounts whose last delivery failed."""
    return Endpoint.objects.filter(disabled_at=None, failing_since__isnull=False)


def disabled_for_failing(*, within: timedelta) -> QuerySet[Endpoint]:
    """Return the endpoints of all accounts that were disabled recently because every delivery failed."""
    return Endpoint.objects.filter(disabled_for=Endpoint.Disabled.FAILING, disabled_at__gte=Now() - within)


def switched_off(account: Account) -> QuerySet[Endpoint]:
    """Return an account's endpoints that were disabled because every delivery failed."""
    failing = Endpoint.objects.filter(client__account=account, disabled_for=Endpoint.Disabled.FAILING)
    return failing.select_related("client").order_by("client")


def troubled(account: Account) -> QuerySet[Endpoint]:
    """Return an account's endpoints that fail: disabled for it, or enabled but the last delivery failed."""
    disabled = Q(disabled_for=Endpoint.Disabled.FAILING)
    failing = Q(disabled_at=None, failing_since__isnull=False)
    own = Endpoint.objects.filter(disabled | failing, client__account=account)
    return own.select_related("client").order_by("client")


def is_enabled(client: Client) -> bool:
    """Return whether events can be sent to a client (`docs/reference/webhooks.md#the-request`)."""
    return Endpoint.objects.filter(client=client, disabled_at=None).exists()


def require_enabled(client: Client) -> None:
    """Raise EndpointError unless events can be sent to a client."""
    if not is_enabled(client):
        raise EndpointError("The client has no enabled webhook.")


def configure(client: Client, url: str, *, by: Actor) -> str:
    """Create a client's endpoint, or enable a disabled one, with a URL; return the new secret.

    Raises addresses.AddressRefused, or EndpointError for a default client or if the endpoint is enabled.
    """
    require_own(client)
    check_url(url)
    return install(client, url, by=by)


def require_own(client: Client) -> None:
    """Raise EndpointError for a default client (`docs/reference/api.md#authentication`)."""
    if client.is_default:
        raise EndpointError("The built-in client cannot have a webhook. Create another client for it.")


@transaction.atomic
def install(client: Client, url: str, *, by: Actor) -> str:
    """Do the part of `configure` that follows its checks and can run in a transaction."""
    secret = new_secret()
    values = {"url": url, "secret": encrypt_secret(secret), **_ENABLED}
    _, is_new = Endpoint.objects.get_or_create(client=client, defaults=values)
    endpoint = _locked(client)
    if endpoint.is_enabled and not is_new:
        raise EndpointError("The webhook is already enabled. Change its URL or rotate its secret.")
    save(endpoint, **values)
    _audit(Action.WEBHOOK_ENABLED, client, by=by, host=_host_of(url))
    return secret


def set_url(client: Client, url: str, *, by: Actor) -> None:
    """Change the URL of a client's endpoint. Raises addresses.AddressRefused or EndpointError."""
    check_url(url)
    with transaction.atomic():
        save(_locked(client), url=url, failing_since=None)
        _audit(Action.WEBHOOK_ADDRESS_CHANGED, client, by=by, host=_host_of(url))


@transaction.atomic
def report_low_credits(client: Client, *, is_wanted: bool, by: Actor) -> bool:
    """Change whether an endpoint gets low-credit events; return whether that changed.

    Raises EndpointError if there is none.
    """
    endpoint = _locked(client)
    if endpoint.reports_low_credits == is_wanted:
        return False
    save(endpoint, reports_low_credits=is_wanted)
    _audit(Action.WEBHOOK_EVENTS_CHANGED, client, by=by, new="on" if is_wanted else "off")
    return True


def disable(client: Client, *, by: Actor) -> None:
    """Disable a client's endpoint and delete its secrets; maintenance fails the waiting events.

    Raises EndpointError if there is none.
    """
    with transaction.atomic():
        switch_off(_locked(client), because=Endpoint.Disabled.BY_OWNER, by=by)


def rotate(client: Client, *, by: Actor, overlap: timedelta = NO_OVERLAP) -> str:
    """Replace an endpoint's secret and return the new one. During the overlap, the old one also signs.

    Raises EndpointError unless the endpoint is enabled and the overlap is at most `MAX_OVERLAP`. Receivers see the
    signatures of `docs/reference/webhooks.md#rotate-the-secret`.
    """
    if not NO_OVERLAP <= overlap <= MAX_OVERLAP:
        raise EndpointError(f"The overlap must be between 0 and {MAX_OVERLAP.days} days.")
    secret = new_secret()
    with transaction.atomic():
        endpoint = _locked(client)
        if not endpoint.is_enabled:
            raise EndpointError("The webhook is disabled. Enable it to get a new secret.")
        old = (
            {"old_secret": endpoint.secret, "old_secret_until": database_time() + overlap}
            if overlap
            else _NO_OLD_SECRET
        )
        save(endpoint, secret=encrypt_secret(secret), **old)
        _audit(Action.WEBHOOK_SECRET_ROTATED, client, by=by, hours=overlap // timedelta(hours=1))
    return secret


def switch_off(endpoint: Endpoint, *, because: Endpoint.Disabled, by: Actor) -> None:
    """Disable a locked endpoint unless it is disabled, and have its owners notified unless a member did it."""
    if not endpoint.is_enabled:
        return
    notify_at = None if because == Endpoint.Disabled.BY_OWNER else Now()
    save(
        endpoint,
        disabled_at=Now(),
        disabled_for=because,
        tell_owners_at=notify_at,
        secret="",
        **_NO_OLD_SECRET,
    )
    _audit(Action.WEBHOOK_DISABLED, endpoint.client, by=by)


def _audit(action: Action, client: Client, *, by: Actor, **details: str | int) -> None:
    audit.record(client.account_id, action, by=by, target_id=client.pk, target=client.name, **details)


def _host_of(url: str) -> str:
    """Return a URL's host for the audit log. Path and query are left out: they can contain a secret."""
    return addresses.parse(url).host


def _locked(client: Client) -> Endpoint:
    """Return a client's endpoint, locked until the transaction ends. Raises EndpointError if there is none."""
    endpoint = Endpoint.objects.select_for_update(no_key=True).filter(client=client).first()
    if endpoint is None:
        raise EndpointError("The client has no webhook.")
    return endpoint


def save(endpoint: Endpoint, **changes: object) -> None:
    """Write changes to the row of a locked endpoint; the instance itself is not updated."""
    Endpoint.objects.filter(pk=endpoint.pk).update(**changes)


def new_secret() -> str:
    """Return a new random secret, `whsec_…`."""
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def secrets_of(endpoint: Endpoint, *, now: datetime) -> Sequence[str]:
    """Return the secrets that sign a delivery; during an overlap, the old one first. Raises InvalidToken."""
    is_rotating = endpoint.old_secret_until is not None and now < endpoint.old_secret_until
    encrypted = [endpoint.old_secret, endpoint.secret] if is_rotating else [endpoint.secret]
    return [decrypt_secret(one) for one in encrypted]


def encrypt_secret(secret: str) -> str:
    """Encrypt a secret for the database."""
    return encryption.encrypt(secret, purpose=Purpose.WEBHOOK_SECRETS)


def decrypt_secret(encrypted: str) -> str:
    """Decrypt a secret. Raises InvalidToken if the deployment no longer has its key."""
    return encryption.decrypt(encrypted, purpose=Purpose.WEBHOOK_SECRETS)


def encrypted_secrets() -> Iterator[EncryptedValue]:
    """Yield the encrypted secrets of all endpoints, current and old ones."""
    for column, name in (("secret", "webhook secret of client"), ("old_secret", "old webhook secret of client")):
        yield from encryption.encrypted_column(Endpoint.objects.exclude(**{column: ""}), column, name=name)
