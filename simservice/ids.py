"""Identifiers: time-ordered numbers for rows a caller sees, random tokens for links."""

import secrets
from datetime import UTC, datetime

from django.db import connection

TOKEN_CHARACTERS = 22
NEXT_ID = """
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint * 100000 + nextval('simservice_ids') % 100000
"""


def next_id() -> int:
    """Return a new 18-digit id, greater than earlier ones: `docs/reference/contract.md#identifiers`.

    Thirteen digits are PostgreSQL's clock in milliseconds and five come from a sequence, so ids made one after
    the other are ordered whichever machine asked. One query.
    """
    with connection.cursor() as cursor:
        cursor.execute(NEXT_ID)
        (value,) = cursor.fetchone()
    return int(value)


def first_id_of(moment: datetime) -> int:
    """Return the lowest id that could have been made at or after a moment."""
    return int(moment.timestamp() * 1000) * 100_000


def moment_of(identifier: int) -> datetime:
    """Return when an id was made."""
    return datetime.fromtimestamp(identifier // 100_000 / 1000, UTC)


def parse_id(text: str) -> int | None:
    """Return the number of an id as a caller wrote it, or None when no id looks like that."""
    return int(text) if len(text) == 18 and text.isascii() and text.isdigit() else None


def new_token() -> str:
    """Return 128 random bits for a link that needs no credential, as URL-safe characters."""
    return secrets.token_urlsafe(16)


class IdConverter:
    """A row's number in a path; one that no row can have is no address at all."""

    regex = "[1-9][0-9]{0,17}"

    def to_python(self, value: str) -> int:
        return int(value)

    def to_url(self, value: int) -> str:
        return str(value)


class TokenConverter:
    """A link's token in a path; whatever looks otherwise is no address at all."""

    regex = f"[A-Za-z0-9_-]{{{TOKEN_CHARACTERS}}}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value
