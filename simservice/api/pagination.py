"""Cursor pagination: a signed cursor contains the id of the last row on a page."""

from django.core import signing

from simservice.api.errors import InvalidCursor, ValidationFailed

DEFAULT_LIMIT = 25
MAX_LIMIT = 100


def signer() -> signing.Signer:
    """Return a signer that signs with `SECRET_KEY` and also accepts `SECRET_KEY_FALLBACKS`."""
    return signing.Signer(sep=".", salt="simservice.api.pagination")


def make_cursor(*, account_id: int, last_id: int) -> str:
    """Return a cursor for the rows after `last_id` of this account's list."""
    return signer().sign_object([account_id, last_id])


def read_cursor(cursor: str, *, account_id: int) -> int:
    """Return the id in a cursor. Raises InvalidCursor if it was not issued for this account."""
    try:
        owner, last_id = signer().unsign_object(cursor)
    except signing.BadSignature:
        raise InvalidCursor from None
    if owner != account_id:
        raise InvalidCursor
    return int(last_id)


def read_limit(text: str | None) -> int:
    """Return the maximum number of rows on a page. Raises ValidationFailed if `text` is not a valid limit."""
    if text is None:
        return DEFAULT_LIMIT
    if text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MAX_LIMIT:
        return int(text)
    raise ValidationFailed([{"path": "limit", "message": f"Must be an integer from 1 to {MAX_LIMIT}."}])
