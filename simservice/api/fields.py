"""Validation of requests: query parameters, and serializer fields that accept exactly one JSON type.

See docs/reference/api.md#types-and-times.
"""

import math
from collections.abc import Container, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, cast
from uuid import UUID

from django.core.validators import ProhibitNullCharactersValidator
from django.http import QueryDict
from rest_framework import serializers
from rest_framework.fields import empty
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from simservice.api.errors import ValidationFailed

MAX_ISSUES = 100
MAX_ISSUE_TEXT = 200
EXAMPLE_UUID = "0b8f6a52-6f3b-4a7e-9d55-2f3f6c1b7a10"
# What an issue says instead of the framework's message with this key.
MESSAGES = {
    "required": "Required. Add a value.",
    "null": "Must not be null.",
    "blank": "Must not be empty.",
    "max_length": "Must have at most {max_length:,} characters.",
    "min_value": "Must be at least {min_value:,}.",
    "max_value": "Must be at most {max_value:,}.",
}


class Worded:
    """A field with the messages of this service. Comes before the framework's class among the bases."""

    default_error_messages: ClassVar[dict[str, Any]] = MESSAGES


class StrictSerializer(Worded, serializers.Serializer[Any]):
    """An object that rejects unknown fields. Reports them together with all other errors.

    A field that is not required can be null, which means the same as its absence.
    """

    default_error_messages = {"invalid": "Must be an object."}

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = super().get_fields()
        for field in fields.values():
            # For the OpenAPI document: `to_internal_value` removes the nulls.
            field.allow_null = not field.required
        return fields

    def run_validation(self, data: Any = empty) -> Any:
        # The framework has a message of its own for null.
        return self.to_internal_value(None) if data is None else super().run_validation(data)

    def to_internal_value(self, data: Any) -> Any:
        unknown = (key for key in data if key not in self.fields) if isinstance(data, Mapping) else ()
        # A body can have hundreds of thousands of unknown fields.
        problems = {key: ["Unknown field."] for key in islice(unknown, MAX_ISSUES)}
        try:
            value = super().to_internal_value(self._without_nulls(data))
        except serializers.ValidationError as error:
            raise serializers.ValidationError({**problems, **cast(dict[str, Any], error.detail)}) from None
        if problems:
            raise serializers.ValidationError(problems)
        return value

    def _without_nulls(self, data: Any) -> Any:
        """Return an object without the nulls of fields that are not required."""
        if not isinstance(data, Mapping):
            return data
        optional = {name for name, field in self.fields.items() if not field.required}
        return {key: value for key, value in data.items() if value is not None or key not in optional}


class StrictBooleanField(Worded, serializers.BooleanField):
    """A JSON boolean."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            raise serializers.ValidationError("Must be true or false.")
        return data


class StrictIntegerField(Worded, serializers.IntegerField):
    """A JSON number without a fraction, such as `60` or `60.0`."""

    def to_internal_value(self, data: Any) -> int:
        number = as_integer(data)
        if number is None:
            raise serializers.ValidationError("Must be an integer.")
        return number


class StrictSecondsField(Worded, serializers.FloatField):
    """A JSON number of seconds. A fraction is rounded down."""

    def to_internal_value(self, data: Any) -> int:
        # JSON can express infinity as 1e999.
        if isinstance(data, float) and math.isfinite(data):
            return math.floor(data)
        if isinstance(data, int) and not isinstance(data, bool):
            return data
        raise serializers.ValidationError("Must be a number of seconds.")


def as_integer(data: Any) -> int | None:
    """Return a parsed JSON value as an integer, None if it is not one."""
    if isinstance(data, float):
        return int(data) if data.is_integer() else None
    return data if isinstance(data, int) and not isinstance(data, bool) else None


class StrictCharField(Worded, serializers.CharField):
    """A JSON string, with surrounding spaces preserved."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)
        # The framework's validator of surrogates takes 0.1 s for a long profile.
        own = {
            ProhibitSurrogateCharactersValidator: _reject_surrogates,
            ProhibitNullCharactersValidator: _reject_nul,
        }
        self.validators = [own.get(type(one), one) for one in self.validators]

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError("Must be a string.")
        if self.max_length is not None and len(data) > self.max_length:
            # Checked before the validators, which read the whole text.
            self.fail("max_length", max_length=self.max_length)
        return data


def _reject_nul(text: str) -> None:
    """Raise ValidationError for a NUL character, which PostgreSQL cannot store."""
    if "\0" in text:
        raise serializers.ValidationError("Must not contain NUL characters.")


def _reject_surrogates(text: str) -> None:
    """Raise ValidationError for a lone surrogate, which JSON can escape but UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"Must not contain the surrogate character U+{ord(text[error.start]):X}."
        raise serializers.ValidationError(message) from None


class StrictListField(Worded, serializers.ListField):
    """A JSON list. Its length is checked before its items."""

    default_error_messages = {"not_a_list": "Must be a list."}

    def to_internal_value(self, data: Any) -> list[Any]:
        if isinstance(data, list) and self.min_length is not None and len(data) < self.min_length:
            noun = "entry" if self.min_length == 1 else "entries"
            raise serializers.ValidationError(f"Must have at least {self.min_length} {noun}.")
        if isinstance(data, list) and self.max_length is not None and len(data) > self.max_length:
            raise serializers.ValidationError(f"Must have at most {self.max_length} entries.")
        return super().to_internal_value(data)


class StrictUUIDField(Worded, serializers.UUIDField):
    """A UUID with hyphens, as a JSON string."""

    default_error_messages = {"invalid": f"Must be a UUID, such as {EXAMPLE_UUID}."}

    def to_internal_value(self, data: Any) -> UUID:
        if not isinstance(data, str) or len(data) != 36:
            self.fail("invalid")
        return super().to_internal_value(data)


class StrictChoiceField(Worded, serializers.ChoiceField):
    """One of several strings or numbers. The type must match too."""

    def to_internal_value(self, data: Any) -> Any:
        for choice in self.choices:
            if type(data) is type(choice) and data == choice:
                return choice
        allowed = ", ".join(str(choice) for choice in self.choices)
        raise serializers.ValidationError(f"Must be one of: {allowed}.")


def validated(serializer: serializers.Serializer[Any]) -> Any:
    """Return the validated data of a serializer. Raises ValidationFailed with at most 100 issues."""
    if not serializer.is_valid():
        raise ValidationFailed(list(islice(_issues(serializer.errors), MAX_ISSUES)))
    return serializer.validated_data


def _issues(errors: Any, path: str = "") -> Iterator[dict[str, str]]:
    """Yield an issue with `path` and `message` for each of the framework's nested errors."""
    if isinstance(errors, Mapping):
        for key, value in errors.items():
            # The keys of a list's errors are indexes.
            yield from _issues(value, f"{path}[{key}]" if isinstance(key, int) else _joined(path, str(key)))
    elif isinstance(errors, list):
        for index, value in enumerate(errors):
            yield from _issues(value, path if isinstance(value, str) else f"{path}[{index}]")
    else:
        yield {"path": _printable(path), "message": _printable(str(errors))}


def _printable(text: str) -> str:
    """Return a text that may come from the request, truncated and encodable as UTF-8."""
    return text[:MAX_ISSUE_TEXT].encode("utf-8", "backslashreplace").decode()


def _joined(path: str, key: str) -> str:
    """Return the dotted path of a key."""
    if key == "non_field_errors":
        return path
    return f"{path}.{key}" if path else key


def single_values(query: QueryDict, *, known: Container[str], prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the query parameters. Raises ValidationFailed if one is unknown or repeated.

    Names that begin with one of the prefixes are known.
    """
    issues = []
    for name, values in query.lists():
        if name not in known and not name.startswith(prefixes):
            issues.append({"path": name, "message": "Unknown parameter."})
        elif len(values) > 1:
            issues.append({"path": name, "message": "Must not be repeated."})
    if issues:
        raise ValidationFailed(issues)
    return {name: str(query[name]) for name in query}
