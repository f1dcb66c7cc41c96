"""API keys: format, creation, lookup, expiry and revocation (`docs/reference/api.md#api-keys`)."""

import hashlib
import re
import secrets
import string
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import BooleanField, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now
from django.utils import timezone

from billing.models import Account, Plan
from clients import audit
from clients.audit import Action, Actor
from clients.errors import NotAMember, TooManyKeys
from clients.models import ApiKey, Client, Membership
from simservice.api.scopes import Scope
from simservice.postgresql.statements import RowReader, load, read_first

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
PREFIX = "sk_"
RANDOM_CHARACTERS = 40
CHECKSUM_CHARACTERS = 6
FORMAT = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{RANDOM_CHARACTERS + CHECKSUM_CHARACTERS}}}\Z")
MAX_ACTIVE = 200
USE_RECORDED_EVERY = timedelta(minutes=1)

KEY, CLIENT, ACCOUNT, PLAN = RowReader(ApiKey), RowReader(Client), RowReader(Account), RowReader(Plan)
SQL = load(__file__, key=KEY.columns, client=CLIENT.columns, account=ACCOUNT.columns, plan=PLAN.columns)


def checksum(text: str) -> str:
    """Return the CRC-32 of `text` as six base-62 digits, most significant first."""
    number = zlib.crc32(text.encode())
    digits = []
    for _ in range(CHECKSUM_CHARACTERS):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


def is_well_formed(secret: str) -> bool:
    """Return whether a text has the format and checksum of a key."""
    if not FORMAT.match(secret):
        return False
    return checksum(secret[:-CHECKSUM_CHARACTERS]) == secret[-CHECKSUM_CHARACTERS:]


def hash_key(secret: str) -> str:
    """Return the hash that identifies a key in the database. A random key needs no salt."""
    return hashlib.sha256(secret.encode()).hexdigest()


@transaction.atomic
def create_key(
    client: Client,
    *,
    by: Actor,
    name: str = "",
    expires_at: datetime | None = None,
    scope: Scope = Scope.MANAGE,
    addresses: Sequence[str] = (),
) -> tuple[ApiKey, str]:
    """Create a key for `client`; return it with its secret, which is not stored.

    `addresses` are those of `clients.addresses.parse`.
    If a user creates it, raises NotAMember, or TooManyKeys if the account has `MAX_ACTIVE` active keys or created
    that many in the last 24 hours.
    """
    if by.user is not None:
        _require_room(client)
        _lock_membership(client, by.user)
    body = PREFIX + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_CHARACTERS))
    secret = body + checksum(body)
    key = ApiKey.objects.create(
        client=client,
        name=name,
        sha256=hash_key(secret),
        last4=secret[-4:],
        expires_at=expires_at,
        created_by=by.user,
        scope=scope,
        addresses=list(addresses),
    )
    limits = {
        **({} if scope == Scope.MANAGE else {"scope": str(scope)}),
        **({"addresses": listed(addresses)} if addresses else {}),
    }
    _record(Action.KEY_CREATED, key, by=by, client=client.name, name=name, **limits)
    return key, secret


def _require_room(client: Client) -> None:
    """Lock the client's account, and raise TooManyKeys if it cannot have another key."""
    Account.objects.select_for_update(no_key=True).get(pk=client.account_id)
    of_account = ApiKey.objects.filter(client__account=client.account_id)
    if of_account.filter(is_active()).count() >= MAX_ACTIVE:
        raise TooManyKeys(f"An account can have at most {MAX_ACTIVE} active keys. Revoke one that you do not need.")
    if of_account.filter(created_at__gt=Now() - timedelta(days=1)).count() >= MAX_ACTIVE:
        raise TooManyKeys(f"An account can create at most {MAX_ACTIVE} keys a day. Try again tomorrow.")


def _lock_membership(client: Client, user: User) -> None:
    """Keep a user in the client's account until the transaction ends. Raises NotAMember.

    Removing a member can revoke their keys, so no key may be created at the same time.
    """
    membership = Membership.objects.filter(account_id=client.account_id, user=user)
    if membership.select_for_update(no_key=True).values_list("pk").first() is None:
        raise NotAMember


@transaction.atomic
def rename(key: ApiKey, name: str, *, by: Actor) -> None:
    """Rename a key."""
    ApiKey.objects.filter(pk=key.pk).update(name=name)
    _record(Action.KEY_RENAMED, key, by=by, name=name)


@transaction.atomic
def expire(key: ApiKey, expires_at: datetime | None, *, by: Actor) -> None:
    """Change when a key expires. None means never."""
    ApiKey.objects.filter(pk=key.pk).update(expires_at=expires_at)
    _record(
        Action.KEY_EXPIRY_CHANGED, key, by=by, expires=f"{expires_at:%Y-%m-%d %H:%M} UTC" if expires_at else None
    )


@transaction.atomic
def change_access(key: ApiKey, *, scope: Scope, addresses: Sequence[str], by: Actor) -> bool:
    """Change a key's scope and addresses for all later requests; return whether anything changed.

    `addresses` are those of `clients.addresses.parse`.
    """
    current = ApiKey.objects.select_for_update(no_key=True).get(pk=key.pk)
    ApiKey.objects.filter(pk=key.pk).update(scope=scope, addresses=list(addresses))
    if is_other_scope := current.scope != scope:
        _record(Action.KEY_SCOPE_CHANGED, key, by=by, old=current.scope, new=str(scope))
    if are_other_addresses := current.addresses != list(addresses):
        old, new = listed(current.addresses), listed(addresses)
        _record(Action.KEY_ADDRESSES_CHANGED, key, by=by, old=old, new=new)
    return is_other_scope or are_other_addresses


def listed(addresses: Sequence[str]) -> str:
    """Return the addresses of a key in one line."""
    return ", ".join(addresses) or "all addresses"


def revoke(key: ApiKey, *, by: Actor) -> None:
    """Revoke a key; do nothing if it is already revoked."""
    revoke_all(ApiKey.objects.filter(pk=key.pk), by=by)


@transaction.atomic
def revoke_all(chosen: QuerySet[ApiKey], *, by: Actor) -> int:
    """Revoke keys; return how many were not revoked before."""
    unrevoked = chosen.filter(revoked_at=None).select_related("client").order_by("pk")
    locked = list(unrevoked.select_for_update(of=("self",), no_key=True))
    ApiKey.objects.filter(pk__in=[key.pk for key in locked]).update(revoked_at=Now())
    audit.record_all(Action.KEY_REVOKED, [(key.client.account_id, key.pk, key) for key in locked], by=by)
    return len(locked)


def is_active() -> Q:
    """Return the condition for keys that are neither revoked nor expired."""
    return Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=Now()))


def with_access(chosen: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    """Add to keys whether they are read-only, because the person who created them is a viewer now."""
    is_read_only = RawSQL(SQL["is_read_only"], [], output_field=BooleanField())  # noqa: S611 - a constant
    return chosen.annotate(is_read_only=is_read_only)  # type: ignore[no-redef]  # the attribute is for `find_key`


def active_keys_of(user: User, account: Account) -> QuerySet[ApiKey]:
    """Return the active keys that a user created in an account, newest first."""
    active = ApiKey.objects.filter(is_active(), client__account=account, created_by=user)
    return active.select_related("client").order_by("-pk")


def _record(action: Action, key: ApiKey, *, by: Actor, **details: str | None) -> None:
    audit.record(key.client.account_id, action, by=by, target_id=key.pk, target=key, **details)


def find_key(secret: str) -> ApiKey | None:
    """Return the key with its client, account and plan, or None."""
    rows = read_first(SQL["find_key"], values={"sha256": hash_key(secret)})
    if not rows:
        return None
    row = rows[0]
    key = KEY.instance(row)
    key.client = CLIENT.instance(row := row[KEY.width :])
    key.client.account = ACCOUNT.instance(row := row[CLIENT.width :])
    key.client.account.plan = PLAN.instance(row := row[ACCOUNT.width :])
    key.is_read_only = row[PLAN.width]
    return key


def record_use(key: ApiKey) -> None:
    """Update the time of the last use, at most once a minute."""
    now = timezone.now()
    if key.last_used_at and now - key.last_used_at < USE_RECORDED_EVERY:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - USE_RECORDED_EVERY)
    ApiKey.objects.filter(stale, pk=key.pk).update(last_used_at=now)
