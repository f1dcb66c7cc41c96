"""Encryption of stored secrets: each purpose has keys of its own, derived from the deployment's."""

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

BATCH = 500


class Purpose(StrEnum):
    """What is encrypted. The text is part of the key, so it never changes."""

    # Users' TOTP secrets and seeds of recovery codes, in the database
    SECOND_FACTORS = "second factors"
    # Clients' signing secrets for deliveries, in the database
    WEBHOOK_SECRETS = "webhook secrets"
    # Credentials of unfinished jobs, in Redis
    GAME_CREDENTIALS = "game credentials"


def keys_for(purpose: Purpose) -> list[str]:
    """Return the deployment's keys for a purpose: the first encrypts, all of them decrypt."""
    own = {
        Purpose.WEBHOOK_SECRETS: settings.WEBHOOK_SECRETS_KEYS,
        Purpose.GAME_CREDENTIALS: [settings.CREDENTIALS_KEY],
    }
    keys = [*own.get(purpose, ()), settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return [key for key in keys if key]


def derived(key: str, *, purpose: Purpose) -> Fernet:
    """Return the encryption key derived from one of the deployment's keys, which can be any text."""
    digest = hmac.new(key.encode(), purpose.encode(), hashlib.sha256).digest()
    return Fernet(base64.urlsafe_b64encode(digest))


def cipher(purpose: Purpose) -> MultiFernet:
    """Return a cipher that encrypts with the current key and decrypts with any."""
    return MultiFernet([derived(key, purpose=purpose) for key in keys_for(purpose)])


def seal(text: str, *, purpose: Purpose) -> str:
    """Encrypt a secret with the current key."""
    return cipher(purpose).encrypt(text.encode()).decode()


def unseal(sealed: str, *, purpose: Purpose) -> str:
    """Decrypt a secret. Raises InvalidToken if none of the deployment's keys decrypts it."""
    return cipher(purpose).decrypt(sealed.encode()).decode()


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """A stored secret as read. `replace` stores another text in its place unless it has changed since."""

    name: str
    text: str = field(repr=False)
    replace: Callable[[str], bool]


@dataclass
class Tally:
    """The result of re-encryption: counts, and the names of values that no key decrypts."""

    reencrypted: int = 0
    current: int = 0
    # Replaced or removed by another process between reading and writing
    changed: int = 0
    unreadable: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.reencrypted} re-encrypted, {self.current} already current, {len(self.unreadable)} unreadable"


def reencrypt(purpose: Purpose, stored: Callable[[], Iterable[Sealed]]) -> Tally:
    """Encrypt values of older keys with the current key; leave values that cannot be decrypted.

    Repeats until nothing is left to do, because a process that read a value before it was re-encrypted can write
    the old text back.
    """
    total = latest = one_pass(purpose, stored())
    while latest.reencrypted or latest.changed:
        latest = one_pass(purpose, stored())
        total.reencrypted += latest.reencrypted
    total.unreadable = latest.unreadable
    return total


def one_pass(purpose: Purpose, stored: Iterable[Sealed]) -> Tally:
    """Read each value once and re-encrypt it if that is necessary."""
    tally = Tally()
    for value in stored:
        try:
            fresh = renewed(value.text, purpose=purpose)
        except InvalidToken:
            tally.unreadable.append(value.name)
            continue
        if fresh == value.text:
            tally.current += 1
        elif value.replace(fresh):
            tally.reencrypted += 1
        else:
            tally.changed += 1
    return tally


def renewed(sealed: str, *, purpose: Purpose) -> str:
    """Return a secret encrypted with the current key: the same text if it already is. Raises InvalidToken."""
    try:
        derived(keys_for(purpose)[0], purpose=purpose).decrypt(sealed.encode())
    except InvalidToken:
        return cipher(purpose).rotate(sealed.encode()).decode()
    return sealed


def sealed_column(rows: QuerySet[Any], column: str, *, name: str) -> Iterator[Sealed]:
    """Yield the secrets in a column of text; `name` and a row's primary key name each."""
    for pk, text in column_of(rows, column):
        yield Sealed(name=f"{name} {pk}", text=text, replace=partial(swap, rows, column, pk, text))


def column_of(rows: QuerySet[Any], column: str) -> Iterator[tuple[int, Any]]:
    """Yield the primary key and a column of each row, reading `BATCH` rows at a time."""
    last = 0
    while batch := list(rows.filter(pk__gt=last).order_by("pk").values_list("pk", column)[:BATCH]):
        yield from batch
        last = batch[-1][0]


def swap(rows: QuerySet[Any], column: str, pk: int, old: str, new: str) -> bool:
    """Replace the text in a row's column. Return False if it has changed."""
    return bool(rows.filter(pk=pk, **{column: old}).update(**{column: new}))
