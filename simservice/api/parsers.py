"""Parsers of request bodies: strict JSON and plain text, both limited in size. Responses are always JSON."""

import json
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from simservice.api.errors import (
    CompressedBody,
    InvalidJson,
    ProfileTooLarge,
    RequestTooLarge,
    UnsupportedMediaType,
    ValidationFailed,
)
from simservice.body_limit import MAX_JSON_BYTES, MAX_TEXT_BYTES

MAX_DIGITS = 4000
# Far more than in real requests. A body of the maximum size can contain millions, which takes too long to parse.
MAX_VALUES = 10_000
TOO_MANY_VALUES = f"The body has more than {MAX_VALUES:,} values."
# A key and a string value have four quotes.
MAX_QUOTES = 4 * (MAX_VALUES + 1)
# Python stores a string with a character beyond U+FFFF in four bytes per character: over 100 MB for longer bodies.
MAX_WIDE_BYTES = 8 << 20


class BoundedParser(BaseParser):
    """Parser of UTF-8 bodies of at most `limit` bytes."""

    # How an error names the media type.
    accepts: str
    limit: int
    over_limit: str

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the parsed body. Raises RequestTooLarge, UnsupportedMediaType or an error of `read`."""
        _reject_other_charsets(media_type or "")
        if parser_context:
            _reject_compression(parser_context["request"].headers.get("Content-Encoding", ""))
        body = stream.read(self.limit + 1)
        if len(body) > self.limit:
            raise RequestTooLarge(message=self.over_limit)
        return self.read(body)

    def read(self, body: bytes) -> Any:
        """Return the value of the body."""
        raise NotImplementedError


class StrictJSONParser(BoundedParser):
    """Parser of JSON that rejects NaN, repeated keys and deep nesting."""

    media_type = accepts = "application/json"
    limit = MAX_JSON_BYTES
    over_limit = "The request body is larger than 13 MB, the limit for JSON."

    def read(self, body: bytes) -> Any:
        """Return the value. Raises the errors of `parse_json`."""
        return parse_json(body)


class PlainTextParser(BoundedParser):
    """Parser of plain text, which it does not change."""

    media_type = "text/plain"
    accepts = "text/plain for a bare profile"
    limit = MAX_TEXT_BYTES
    over_limit = "The request body is larger than 2 MB and 64 KiB, the limit for plain text."

    def read(self, body: bytes) -> str:
        """Return the text. Raises ValidationFailed if it is not UTF-8."""
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError as error:
            message = f"Must be UTF-8; byte {error.start} is not."
            raise ValidationFailed([{"path": "body", "message": message}]) from None


def without_parameters(content_type: str) -> str:
    """Return the media type of a `Content-Type` header."""
    return content_type.partition(";")[0].strip().lower()


def is_plain_text(content_type: str) -> bool:
    """Return whether a `Content-Type` header is that of a plain-text submission."""
    return without_parameters(content_type) == PlainTextParser.media_type


def _reject_other_charsets(media_type: str) -> None:
    """Raise UnsupportedMediaType if the charset is not UTF-8."""
    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        # `charset*` is the extended form of RFC 2231.
        if name.rstrip("* ").lower() == "charset" and value.strip('" ').lower() not in ("utf-8", "utf8"):
            raise UnsupportedMediaType(message="The body's charset must be UTF-8.")


def _reject_compression(encoding: str) -> None:
    """Raise CompressedBody if the body's Content-Encoding is not empty or `identity`."""
    if encoding.strip().lower() not in ("", "identity"):
        raise CompressedBody


def parse_json(body: bytes) -> Any:
    """Return the value of strict JSON. Raises InvalidJson or ProfileTooLarge.

    Takes at most 100 MB of memory for a body of `MAX_JSON_BYTES`.
    """
    if body.startswith(BOM_UTF8):
        raise InvalidJson(message="The body must not begin with a byte order mark.")
    _reject_expensive(body)
    try:
        return json.loads(
            body.decode("utf-8"),
            parse_int=_short_integer,
            parse_constant=_reject_constant,
            object_pairs_hook=_reject_repeated_keys,
        )
    except RecursionError:
        raise InvalidJson(message="The body is nested too deeply.") from None
    except UnicodeDecodeError as error:
        raise InvalidJson(message=f"The body must be UTF-8, but byte {error.start} is not valid.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidJson(message=f"The body is not valid JSON: check the quotes and commas at {place}.") from None
    except ValueError as error:
        raise InvalidJson(message=f"The body is not valid JSON: {error}.") from None


def _reject_expensive(body: bytes) -> None:
    """Raise InvalidJson or ProfileTooLarge if parsing would take too much time or memory."""
    # Without escaped quotes, each quote begins or ends a string. The replacements have the same length.
    plain = body.replace(b"\\\\", b"\\n").replace(b'\\"', b"\\n")
    if plain.count(b'"') > MAX_QUOTES:
        raise InvalidJson(message=TOO_MANY_VALUES)
    parts = plain.split(b'"')
    if _count_values(parts[::2]) > MAX_VALUES:
        raise InvalidJson(message=TOO_MANY_VALUES)
    # In a valid request, only the profile is this long.
    if len(body) > MAX_WIDE_BYTES and _may_be_wide(body) and _minimum_size(parts[1::2]) > MAX_TEXT_BYTES:
        raise ProfileTooLarge


def _may_be_wide(body: bytes) -> bool:
    """Return whether JSON can contain a character beyond U+FFFF, raw or as a surrogate pair."""
    return not body.isascii() or b"\\ud" in body or b"\\uD" in body


def _count_values(between: Sequence[bytes]) -> int:
    """Return the approximate number of JSON values from the parts between the strings."""
    return sum(part.count(mark) for part in between for mark in (b",", b"[", b"{"))


def _minimum_size(strings: Sequence[bytes]) -> int:
    """Return a lower bound for the UTF-8 size of JSON strings in bytes; `\\u0041` is at least one byte."""
    return sum(len(string) - string.count(b"\\") - 4 * string.count(b"\\u") for string in strings)


def _short_integer(digits: str) -> int:
    """Return an integer. Raises ValueError if it has too many digits."""
    if len(digits) > MAX_DIGITS:
        raise ValueError("a number is too long")
    return int(digits)


def _reject_constant(name: str) -> Any:
    """Raise ValueError for NaN and infinities, which Python's parser accepts."""
    raise ValueError(f"{name} is not JSON")


def _reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises ValueError if a key is repeated."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("an object repeats a key")
    return result


class JsonOnly(BaseContentNegotiation):
    """Selects the parser with exactly the body's media type. Ignores the `Accept` header."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        media_type = without_parameters(request.content_type)
        return next((parser for parser in parsers if parser.media_type == media_type), None)

    def select_renderer(
        self,
        request: Request,  # noqa: ARG002
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,  # noqa: ARG002
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, str(renderer.media_type)
