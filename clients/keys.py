"""API keys: their form, their making and their finding (contract, section 2)."""

import hashlib
import re
import secrets
import string
import zlib
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from clients.models import ApiKey, Client

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
PREFIX = "sk_"
RANDOM_CHARACTERS = 40
CHECKSUM_CHARACTERS = 6
FORM = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{RANDOM_CHARACTERS + CHECKSUM_CHARACTERS}}}\Z")
USE_RECORDED_EVERY = timedelta(minutes=1)


def checksum(text: str) -> str:
    """Return the CRC-32 of `text` as six base62 characters, most significant first."""
    number = zlib.crc32(text.encode())
    digits = []
    for _ in range(CHECKSUM_CHARACTERS):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


def is_well_formed(secret: str) -> bool:
    """Tell whether a text could be a key at all, without asking the database."""
    if not FORM.match(secret):
        return False
    return checksum(secret[:-CHECKSUM_CHARACTERS]) == secret[-CHECKSUM_CHARACTERS:]


def digest(secret: str) -> str:
    """Return the hash a key is kept and found by. The key is random enough to need no salt."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create_key(client: Client, *, name: str = "", expires_at: datetime | None = None) -> tuple[ApiKey, str]:
    """Make a key for `client`; return its row and its secret, which cannot be had a second time."""
    body = PREFIX + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_CHARACTERS))
    secret = body + checksum(body)
    key = ApiKey.objects.create(
        client=client, name=name, sha256=digest(secret), last4=secret[-4:], expires_at=expires_at
    )
    return key, secret


def rename(key: ApiKey, name: str) -> None:
    """Give a key another name."""
    ApiKey.objects.filter(pk=key.pk).update(name=name)


def revoke(key: ApiKey) -> None:
    """Let a key serve no more; the first time counts, again does no harm."""
    ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now())


def find_key(secret: str) -> ApiKey | None:
    """Return the key with its client, account and plan in one query, or None."""
    query = ApiKey.objects.select_related("client__account__plan")
    return query.filter(sha256=digest(secret)).first()


def record_use(key: ApiKey) -> None:
    """Note that a key was used, at most once a minute."""
    now = timezone.now()
    if key.last_used_at and now - key.last_used_at < USE_RECORDED_EVERY:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - USE_RECORDED_EVERY)
    ApiKey.objects.filter(stale, pk=key.pk).update(last_used_at=now)
