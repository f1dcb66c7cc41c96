"""Reading bodies: bounded, JSON as strict as JSON is, and plain text as it came."""

import json
from collections.abc import Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import IO, Any

from rest_framework.parsers import BaseParser

from simservice.api.errors import InvalidJson, RequestTooLarge, UnsupportedMediaType, ValidationFailed
from simservice.api.limits import MAX_BODY_BYTES

MAX_DIGITS = 4000
# Far more than any request has. Each costs time, and a body has room for millions.
MAX_VALUES = 10_000


class BoundedParser(BaseParser):
    """A body in UTF-8 of at most 3 MB."""

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return what the body stands for. Raises RequestTooLarge, UnsupportedMediaType, or as `read` does.

        A view that counts bytes says so with `received` in its parsers' context: it is called with their number,
        at most the limit and one, before anything else is done with the body.
        """
        refuse_other_charsets(media_type or "")
        body = stream.read(MAX_BODY_BYTES + 1)
        if received := (parser_context or {}).get("received"):
            received(len(body))
        if len(body) > MAX_BODY_BYTES:
            raise RequestTooLarge
        return self.read(body)

    def read(self, body: bytes) -> Any:
        """Return what the bytes stand for."""
        raise NotImplementedError


class StrictJSONParser(BoundedParser):
    """JSON without NaN, repeated keys or nesting without end."""

    media_type = "application/json"

    def read(self, body: bytes) -> Any:
        """Return the value. Raises InvalidJson with a sentence that says what is wrong."""
        return parse_json(body)


class PlainTextParser(BoundedParser):
    """A text as it came."""

    media_type = "text/plain"

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
    """Parse strict JSON. Raises InvalidJson with a sentence that says what is wrong."""
    try:
        text = body.decode("utf-8")
        refuse_many_values(text)
        return json.loads(
            text,
            parse_int=short_integer,
            parse_constant=refuse_constant,
            object_pairs_hook=refuse_repeated_keys,
        )
    except RecursionError:
        raise InvalidJson(message="The body is nested too deeply.") from None
    except ValueError as error:
        raise InvalidJson(message=f"The body is not valid JSON: {error}") from None


def refuse_many_values(text: str) -> None:
    """Raise InvalidJson when a text has more values than any request, before an object is made of each.

    Looks at what stands between the strings only, and raises ValueError for a string that has no end.
    """
    values, end = 0, 0
    while values <= MAX_VALUES and end < len(text):
        start = text.find('"', end)
        stop = len(text) if start < 0 else start
        values += sum(text.count(mark, end, stop) for mark in ",[{")
        end = stop if start < 0 else scanstring(text, start + 1)[1]
    if values > MAX_VALUES:
        raise InvalidJson(message=f"The body has more than {MAX_VALUES:,} values.")


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
