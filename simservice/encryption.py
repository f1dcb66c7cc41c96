"""Encryption of stored secrets. Each purpose has its own keys, derived from the deployment's keys."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db.models import QuerySet

BATCH_ROWS = 500


class Purpose(StrEnum):
    """The kinds of secrets. Keys are derived from these texts, so the texts must never change."""

    # Users' TOTP secrets and seeds of recovery codes, in the database
    SECOND_FACTORS = "second factors"
    # Clients' signing secrets for deliveries, in the database
    WEBHOOK_SECRETS = "webhook secrets"
    # Credentials of unfinished jobs, in Redis
    GAME_CREDENTIALS = "game credentials"
    # Digests of game credentials in the fingerprints of requests, in the database
    REQUEST_FINGERPRINTS = "request fingerprints"
    # Digests of mailboxes that have opened an account, in the database
    MAILBOXES = "mailboxes"


def _keys(purpose: Purpose) -> list[str]:
    """Return the deployment's keys for a purpose. The first one encrypts, all of them decrypt."""
    own = {
        Purpose.WEBHOOK_SECRETS: settings.WEBHOOK_SECRETS_KEYS,
        Purpose.GAME_CREDENTIALS: [settings.CREDENTIALS_KEY],
    }
    keys = [*own.get(purpose, ()), settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return [key for key in keys if key]


def _derive(key: str, *, purpose: Purpose) -> bytes:
    """Return a key derived from one of the deployment's keys, which can be any text."""
    return hmac.new(key.encode(), purpose.encode(), hashlib.sha256).digest()


def _fernet(key: str, *, purpose: Purpose) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(_derive(key, purpose=purpose)))


def digests(text: str, *, purpose: Purpose) -> list[str]:
    """Return keyed hashes of a text, by which it can be recognized but not read: the current key's first."""
    keys = [_derive(key, purpose=purpose) for key in _keys(purpose)]
    return [hmac.new(key, text.encode(), hashlib.sha256).hexdigest() for key in keys]


def _cipher(purpose: Purpose) -> MultiFernet:
    """Return a cipher that encrypts with the current key and decrypts with any."""
    return MultiFernet([_fernet(key, purpose=purpose) for key in _keys(purpose)])


def encrypt(text: str, *, purpose: Purpose) -> str:
    """Encrypt a secret with the current key."""
    return _cipher(purpose).encrypt(text.encode()).decode()


def decrypt(encrypted: str, *, purpose: Purpose) -> str:
    """Decrypt a secret. Raises InvalidToken if none of the deployment's keys decrypts it."""
    return _cipher(purpose).decrypt(encrypted.encode()).decode()


@dataclass(frozen=True, kw_only=True)
class EncryptedValue:
    """A stored secret. `replace` stores a new text unless the stored one has changed since it was read."""

    name: str
    text: str = field(repr=False)
    replace: Callable[[str], bool]


@dataclass
class ReencryptionSummary:
    """The result of re-encryption: counts, and the names of values that no key decrypts."""

    reencrypted: int = 0
    current: int = 0
    # Replaced or removed by another process between reading and writing
    changed: int = 0
    unreadable: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.reencrypted} re-encrypted, {self.current} already current, {len(self.unreadable)} unreadable"


def reencrypt(purpose: Purpose, stored: Callable[[], Iterable[EncryptedValue]]) -> ReencryptionSummary:
    """Encrypt values of older keys with the current key. Values that cannot be decrypted stay unchanged.

    Repeats until nothing is left to do, because a process that read a value before it was re-encrypted can write
    the old text back.
    """
    total = latest = _reencrypt_once(purpose, stored())
    while latest.reencrypted or latest.changed:
        latest = _reencrypt_once(purpose, stored())
        total.reencrypted += latest.reencrypted
    total.unreadable = latest.unreadable
    return total


def _reencrypt_once(purpose: Purpose, stored: Iterable[EncryptedValue]) -> ReencryptionSummary:
    summary = ReencryptionSummary()
    for value in stored:
        try:
            new_text = _renew(value.text, purpose=purpose)
        except InvalidToken:
            summary.unreadable.append(value.name)
            continue
        if new_text == value.text:
            summary.current += 1
        elif value.replace(new_text):
            summary.reencrypted += 1
        else:
            summary.changed += 1
    return summary


def _renew(encrypted: str, *, purpose: Purpose) -> str:
    """Return a secret encrypted with the current key: the same text if it already is. Raises InvalidToken."""
    try:
        _fernet(_keys(purpose)[0], purpose=purpose).decrypt(encrypted.encode())
    except InvalidToken:
        return _cipher(purpose).rotate(encrypted.encode()).decode()
    return encrypted


def encrypted_column(rows: QuerySet[Any], column: str, *, name: str) -> Iterator[EncryptedValue]:
    """Yield the secrets in a text column. Each is named by `name` and the row's primary key."""
    for pk, text in values_by_pk(rows, column):
        yield EncryptedValue(name=f"{name} {pk}", text=text, replace=partial(_replace, rows, column, pk, text))


def values_by_pk(rows: QuerySet[Any], column: str) -> Iterator[tuple[int, Any]]:
    """Yield the primary key and a column of each row, reading `BATCH_ROWS` rows at a time."""
    last = 0
    while batch := list(rows.filter(pk__gt=last).order_by("pk").values_list("pk", column)[:BATCH_ROWS]):
        yield from batch
        last = batch[-1][0]


def _replace(rows: QuerySet[Any], column: str, pk: int, old: str, new: str) -> bool:
    """Replace the text in a row's column. Return False if it has changed."""
    return bool(rows.filter(pk=pk, **{column: old}).update(**{column: new}))
