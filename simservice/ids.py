"""Identifiers: time-ordered ids of rows, and random tokens for links."""

import secrets
from datetime import UTC, datetime

from django.db import connection
from django.urls import register_converter
from django.urls.converters import IntConverter, StringConverter

TOKEN_CHARACTERS = 22
# The SQL expression of a new id
NEW_ID = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint * 100000 + mod(nextval('simservice_ids'), 100000)"


def next_id() -> int:
    """Return a new 18-digit id, greater than earlier ones (`docs/reference/api.md#identifiers`).

    The first 13 digits are PostgreSQL's clock in milliseconds, the last 5 come from a sequence. Ids are therefore
    in order across machines.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {NEW_ID}")
        (value,) = cursor.fetchone()
    return int(value)


def first_id_of(moment: datetime) -> int:
    """Return the lowest possible id of a row created at or after a time."""
    return int(moment.timestamp() * 1000) * 100_000


def moment_of(identifier: int) -> datetime:
    """Return the time when an id was created."""
    return datetime.fromtimestamp(identifier // 100_000 / 1000, UTC)


def parse_id(text: str) -> int | None:
    """Parse an id from a request. Return None if it does not have 18 digits."""
    return int(text) if len(text) == 18 and text.isascii() and text.isdigit() else None


def new_token() -> str:
    """Return a URL-safe token of 128 random bits, for a link that needs no login."""
    return secrets.token_urlsafe(16)


class IdConverter(IntConverter):
    """A primary key in a path. A path with another value does not match."""

    regex = "[1-9][0-9]{0,17}"


class TokenConverter(StringConverter):
    """A link's token in a path. A path with another value does not match."""

    regex = f"[A-Za-z0-9_-]{{{TOKEN_CHARACTERS}}}"


register_converter(IdConverter, "id")
register_converter(TokenConverter, "token")
