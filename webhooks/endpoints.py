"""A client's endpoint: where its events go, and the secret they are signed with.

A secret is returned once, by what made it, and kept encrypted. Nothing here tells apart who asks: that is the
caller's.
"""

import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from billing.models import Account
from clients import audit
from clients.audit import Action, Actor
from clients.models import Client
from simservice import encryption
from simservice.encryption import Purpose, Sealed
from webhooks import addresses, sending
from webhooks.models import Endpoint

PREFIX = "whsec_"
SECRET_BYTES = 32
NO_OVERLAP = timedelta(0)
LONGEST_OVERLAP = timedelta(days=7)
# For looking up a name while somebody waits for a page.
LOOKUP_SECONDS = 5.0


class NotPossible(Exception):
    """The endpoint is not in a state for that; the message is a sentence for its owner."""


def check_url(url: str) -> None:
    """Refuse a URL that no webhook may go to, for its form or for where its name leads now.

    Raises addresses.Refused. Asks the resolver: call it outside of transactions.
    """
    target = addresses.parse(url)
    try:
        sending.resolve(target, deadline=sending.Deadline(LOOKUP_SECONDS))
    except sending.Failed as failed:
        raise addresses.Refused(str(failed)) from None


def of(client: Client) -> Endpoint | None:
    """Return a client's endpoint, None when it never had one."""
    return Endpoint.objects.filter(client=client).first()


def switched_off(account: Account) -> QuerySet[Endpoint]:
    """Return an account's endpoints that were disabled because they failed, for its owners to see."""
    failing = Endpoint.objects.filter(client__account=account, disabled_for=Endpoint.Disabled.FAILING)
    return failing.select_related("client").order_by("client")


def is_enabled(client: Client) -> bool:
    """Tell whether a client has a URL and a secret (specification, Events). One query."""
    return Endpoint.objects.filter(client=client, disabled_at=None).exists()


def require_enabled(client: Client) -> None:
    """Raise NotPossible unless events can be sent to a client."""
    if not is_enabled(client):
        raise NotPossible("The client has no enabled webhook.")


def configure(client: Client, url: str, *, by: Actor) -> str:
    """Give a client its first endpoint, or a disabled one this URL; return the new secret.

    Raises addresses.Refused, or NotPossible for a built-in client and where an enabled endpoint is.
    """
    require_own(client)
    check_url(url)
    return install(client, url, by=by)


def require_own(client: Client) -> None:
    """Raise NotPossible for a client that can have no endpoint (specification, Authentication)."""
    if client.is_default:
        raise NotPossible("The built-in default client can have no webhook. Make a client of your own for it.")


@transaction.atomic
def install(client: Client, url: str, *, by: Actor) -> str:
    """Do what `configure` does after its checks, which ask the resolver: for callers in a transaction."""
    secret = new_secret()
    fresh = {"url": url, "secret": seal(secret), **ENABLED}
    _, is_new = Endpoint.objects.get_or_create(client=client, defaults=fresh)
    endpoint = locked(client)
    if endpoint.is_enabled and not is_new:
        raise NotPossible("The webhook is enabled already. Change its URL, or rotate its secret.")
    save(endpoint, **fresh)
    record(Action.WEBHOOK_ENABLED, client, by=by, host=host_of(url))
    return secret


def set_url(client: Client, url: str, *, by: Actor) -> None:
    """Send a client's events elsewhere from now on. Raises addresses.Refused or NotPossible."""
    check_url(url)
    with transaction.atomic():
        save(locked(client), url=url, failing_since=None)
        record(Action.WEBHOOK_ADDRESS_CHANGED, client, by=by, host=host_of(url))


def enable(client: Client, *, by: Actor) -> str:
    """Enable a disabled endpoint and return its new secret (specification, Events).

    Raises NotPossible, or addresses.Refused when its URL is no longer acceptable.
    """
    endpoint = of(client)
    if endpoint is None:
        raise NotPossible(NONE)
    return configure(client, endpoint.url, by=by)


def disable(client: Client, *, by: Actor) -> None:
    """Send nothing more to a client's endpoint and forget its secrets; events that wait are given up by the sweep.

    Raises NotPossible when it never had one.
    """
    with transaction.atomic():
        switch_off(locked(client), because=Endpoint.Disabled.BY_OWNER, by=by)


def rotate(client: Client, *, by: Actor, overlap: timedelta = NO_OVERLAP) -> str:
    """Give an endpoint a new secret and return it. During the overlap, the old one signs too (contract, section 8).

    Raises NotPossible unless the endpoint is enabled and the overlap is at most a week.
    """
    if not NO_OVERLAP <= overlap <= LONGEST_OVERLAP:
        raise NotPossible(f"The overlap must be between 0 and {LONGEST_OVERLAP.days} days.")
    secret = new_secret()
    with transaction.atomic():
        endpoint = locked(client)
        if not endpoint.is_enabled:
            raise NotPossible("The webhook is disabled. Enabling it makes a new secret.")
        old = (
            {"old_secret": endpoint.secret, "old_secret_until": timezone.now() + overlap} if overlap else FORGOTTEN
        )
        save(endpoint, secret=seal(secret), **old)
        record(Action.WEBHOOK_SECRET_ROTATED, client, by=by, hours=overlap // timedelta(hours=1))
    return secret


NONE = "The client has no webhook."
FORGOTTEN = {"old_secret": "", "old_secret_until": None}
ENABLED = {"disabled_at": None, "disabled_for": "", "failing_since": None, "tell_owners_at": None, **FORGOTTEN}


def switch_off(endpoint: Endpoint, *, because: Endpoint.Disabled, by: Actor) -> None:
    """Disable a locked endpoint; its owners are told when it was not themselves who did it. Again is no change."""
    if not endpoint.is_enabled:
        return
    told = None if because == Endpoint.Disabled.BY_OWNER else Now()
    save(endpoint, disabled_at=Now(), disabled_for=because, tell_owners_at=told, secret="", **FORGOTTEN)
    record(Action.WEBHOOK_DISABLED, endpoint.client, by=by)


def record(action: Action, client: Client, *, by: Actor, **details: str | int) -> None:
    """Write an event about a client's webhook."""
    audit.record(client.account_id, action, by=by, target_id=client.pk, target=client.name, **details)


def host_of(url: str) -> str:
    """Return the part of a URL for the audit log; path and query can contain a receiver's secret."""
    return addresses.parse(url).host


def locked(client: Client) -> Endpoint:
    """Return a client's endpoint, locked until the transaction ends. Raises NotPossible when there is none."""
    endpoint = Endpoint.objects.select_for_update(no_key=True).filter(client=client).first()
    if endpoint is None:
        raise NotPossible(NONE)
    return endpoint


def save(endpoint: Endpoint, **changes: object) -> None:
    """Write changes to a locked endpoint, whatever the given instance was read with."""
    Endpoint.objects.filter(pk=endpoint.pk).update(**changes)


def new_secret() -> str:
    """Return a secret as its owner is shown it, once."""
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def secrets_of(endpoint: Endpoint, *, now: datetime) -> Sequence[str]:
    """Return what a delivery is signed with: during a rotation the old secret first. Raises InvalidToken."""
    is_rotating = endpoint.old_secret_until is not None and now < endpoint.old_secret_until
    sealed = [endpoint.old_secret, endpoint.secret] if is_rotating else [endpoint.secret]
    return [unseal(one) for one in sealed]


def seal(secret: str) -> str:
    """Return a secret as the database keeps it."""
    return encryption.seal(secret, purpose=Purpose.WEBHOOK_SECRETS)


def unseal(sealed: str) -> str:
    """Decrypt a secret. Raises InvalidToken if the deployment no longer has its key."""
    return encryption.unseal(sealed, purpose=Purpose.WEBHOOK_SECRETS)


def sealed_secrets() -> Iterator[Sealed]:
    """Yield the secrets of all endpoints, current and old ones."""
    for column, name in (("secret", "webhook secret of client"), ("old_secret", "old webhook secret of client")):
        yield from encryption.sealed_column(Endpoint.objects.exclude(**{column: ""}), column, name=name)
