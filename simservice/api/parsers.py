"""Reading bodies: bounded, JSON as strict as JSON is, and plain text as it came."""

import json
from collections.abc import Mapping, Sequence
from typing import IO, Any

from rest_framework.parsers import BaseParser

from simservice.api.errors import (
    InvalidJson,
    ProfileTooLarge,
    RequestTooLarge,
    UnsupportedMediaType,
    ValidationFailed,
)
from simservice.web.body_limit import MAX_JSON_BYTES, MAX_TEXT_BYTES

MAX_DIGITS = 4000
# Far more than real requests have. Each costs time, and a body has room for millions.
MAX_VALUES = 10_000
TOO_MANY_VALUES = f"The body has more than {MAX_VALUES:,} values."
# A value can have a name and be a string itself: four quotes.
MAX_QUOTES = 4 * (MAX_VALUES + 1)
# A string with a character beyond U+FFFF takes four bytes per character; a longer body would take over 100 MB.
MAX_WIDE_BYTES = 8 << 20


class BoundedParser(BaseParser):
    """A body in UTF-8 of at most `limit` bytes."""

    limit: int
    over_limit: str

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> Any:
        """Return the parsed body. Raises RequestTooLarge, UnsupportedMediaType, or like `read`."""
        refuse_other_charsets(media_type or "")
        body = stream.read(self.limit + 1)
        if len(body) > self.limit:
            raise RequestTooLarge(message=self.over_limit)
        return self.read(body)

    def read(self, body: bytes) -> Any:
        """Return what the bytes stand for."""
        raise NotImplementedError


class StrictJSONParser(BoundedParser):
    """JSON without NaN, repeated keys or nesting without end."""

    media_type = "application/json"
    limit = MAX_JSON_BYTES
    over_limit = "The request body is larger than 13 MB, the limit for JSON."

    def read(self, body: bytes) -> Any:
        """Return the value. Raises like `parse_json`."""
        return parse_json(body)


class PlainTextParser(BoundedParser):
    """A text as it came."""

    media_type = "text/plain"
    limit = MAX_TEXT_BYTES
    over_limit = "The request body is larger than 2 MB and 64 KiB, the limit for plain text."

    def read(self, body: bytes) -> str:
        """Return the text. Raises ValidationFailed when it is not UTF-8."""
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError as error:
            message = f"Must be UTF-8; byte {error.start} is not."
            raise ValidationFailed([{"path": "body", "message": message}]) from None


def without_parameters(content_type: str) -> str:
    """Return the media type that a content type names."""
    return content_type.partition(";")[0].strip().lower()


def is_plain_text(content_type: str) -> bool:
    """Tell whether a content type is that of the plain-text form."""
    return without_parameters(content_type) == PlainTextParser.media_type


def refuse_other_charsets(media_type: str) -> None:
    """Raise UnsupportedMediaType when a body declares itself to be anything but UTF-8."""
    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        # A star says that the value tells its own encoding.
        if name.rstrip("* ").lower() == "charset" and value.strip('" ').lower() not in ("utf-8", "utf8"):
            raise UnsupportedMediaType(message="The body's charset must be UTF-8.")


def parse_json(body: bytes) -> Any:
    """Parse strict JSON. Raises InvalidJson with a sentence that says what is wrong, or ProfileTooLarge.

    Takes at most 100 MB of memory for a body of `MAX_JSON_BYTES`.
    """
    refuse_hostile(body)
    try:
        return json.loads(
            body.decode("utf-8"),
            parse_int=short_integer,
            parse_constant=refuse_constant,
            object_pairs_hook=refuse_repeated_keys,
        )
    except RecursionError:
        raise InvalidJson(message="The body is nested too deeply.") from None
    except ValueError as error:
        raise InvalidJson(message=f"The body is not valid JSON: {error}") from None


def refuse_hostile(body: bytes) -> None:
    """Raise InvalidJson or ProfileTooLarge for a body that would take too much time or memory to parse."""
    # Replaces escapes by others of the same length, so that each remaining quote begins or ends a string.
    plain = body.replace(b"\\\\", b"\\n").replace(b'\\"', b"\\n")
    if plain.count(b'"') > MAX_QUOTES:
        raise InvalidJson(message=TOO_MANY_VALUES)
    parts = plain.split(b'"')
    if count_values(parts[::2]) > MAX_VALUES:
        raise InvalidJson(message=TOO_MANY_VALUES)
    # In a valid request, only the profile is long.
    if len(body) > MAX_WIDE_BYTES and may_be_wide(body) and least_size(parts[1::2]) > MAX_TEXT_BYTES:
        raise ProfileTooLarge


def may_be_wide(body: bytes) -> bool:
    """Return whether JSON may contain a character beyond U+FFFF, raw or as a surrogate pair."""
    return not body.isascii() or b"\\ud" in body or b"\\uD" in body


def count_values(between: Sequence[bytes]) -> int:
    """Return the number of JSON values, or a few less, from the parts between the strings."""
    return sum(part.count(mark) for part in between for mark in (b",", b"[", b"{"))


def least_size(strings: Sequence[bytes]) -> int:
    """Return a lower bound for the UTF-8 size of JSON strings in bytes; `\\u0041` is at least one byte."""
    return sum(len(string) - string.count(b"\\") - 4 * string.count(b"\\u") for string in strings)


def short_integer(digits: str) -> int:
    """Return an integer, raising for one so long that nobody can mean it."""
    if len(digits) > MAX_DIGITS:
        raise ValueError("a number is too long")
    return int(digits)


def refuse_constant(name: str) -> Any:
    """Raise for NaN and the infinities, which Python's parser would take."""
    raise ValueError(f"{name} is not JSON")


def refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object, raising when it names a key twice: nobody knows which one was meant."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("an object repeats a key")
    return result
