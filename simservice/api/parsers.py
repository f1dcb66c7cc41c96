"""Reading bodies: bounded, JSON as strict as JSON is, and plain text as it came."""

import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser

from simservice.api.errors import InvalidJson, RequestTooLarge, UnsupportedMediaType, ValidationFailed

MAX_BODY_BYTES = 3 * 1024 * 1024


class BoundedParser(BaseParser):
    """A body in UTF-8 of at most 3 MB."""

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> Any:
        """Return what the body stands for. Raises RequestTooLarge, UnsupportedMediaType, or as `read` does."""
        refuse_other_charsets(media_type or "")
        return self.read(read_bounded(stream))

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
        if name.lower() == "charset" and value.strip('" ').lower() not in ("utf-8", "utf8"):
            raise UnsupportedMediaType(message="The body's charset must be UTF-8.")


def read_bounded(stream: IO[bytes]) -> bytes:
    """Return the body, never holding more than the limit and one byte. Raises RequestTooLarge."""
    body = stream.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        raise RequestTooLarge
    return body


def parse_json(body: bytes) -> Any:
    """Parse strict JSON. Raises InvalidJson with a sentence that says what is wrong."""
    try:
        return json.loads(
            body.decode("utf-8"), parse_constant=refuse_constant, object_pairs_hook=refuse_repeated_keys
        )
    except RecursionError:
        raise InvalidJson(message="The body is nested too deeply.") from None
    except ValueError as error:
        raise InvalidJson(message=f"The body is not valid JSON: {error}") from None


def refuse_constant(name: str) -> Any:
    """Raise for NaN and the infinities, which Python's parser would take."""
    raise ValueError(f"{name} is not JSON")


def refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object, raising when it names a key twice: nobody knows which one was meant."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("an object repeats a key")
    return result
