"""Serializer fields that accept exactly one JSON type (docs/reference/contract.md#types-and-times)."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, cast
from uuid import UUID

from rest_framework import serializers
from rest_framework.fields import empty
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from simservice.api.errors import ValidationFailed

MAX_ISSUES = 100
MAX_ISSUE_TEXT = 200


class StrictSerializer(serializers.Serializer[Any]):
    """An object that rejects unknown fields. Reports them together with all other errors."""

    default_error_messages = {"invalid": "Must be an object."}

    def run_validation(self, data: Any = empty) -> Any:
        # The framework has a message of its own for null.
        return self.to_internal_value(None) if data is None else super().run_validation(data)

    def to_internal_value(self, data: Any) -> Any:
        unknown = (key for key in data if key not in self.fields) if isinstance(data, Mapping) else ()
        # A body can have hundreds of thousands of unknown fields.
        problems = {key: ["Unknown field."] for key in islice(unknown, MAX_ISSUES)}
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            raise serializers.ValidationError({**problems, **cast(dict[str, Any], error.detail)}) from None
        if problems:
            raise serializers.ValidationError(problems)
        return value


class StrictBooleanField(serializers.BooleanField):
    """A JSON boolean."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            raise serializers.ValidationError("Must be true or false.")
        return data


class StrictIntegerField(serializers.IntegerField):
    """A JSON number without a fraction, such as `60` or `60.0`."""

    def to_internal_value(self, data: Any) -> int:
        number = as_integer(data)
        if number is None:
            raise serializers.ValidationError("Must be an integer.")
        return number


def as_integer(data: Any) -> int | None:
    """Return a parsed JSON value as an integer, None if it is not one."""
    if isinstance(data, float):
        return int(data) if data.is_integer() else None
    return data if isinstance(data, int) and not isinstance(data, bool) else None


class StrictCharField(serializers.CharField):
    """A JSON string, with surrounding spaces preserved."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)
        # The framework's validator takes 0.1 s for a long profile.
        self.validators = [
            _reject_surrogates if isinstance(one, ProhibitSurrogateCharactersValidator) else one
            for one in self.validators
        ]

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError("Must be a string.")
        if self.max_length is not None and len(data) > self.max_length:
            # Checked before the validators, which read the whole text.
            self.fail("max_length", max_length=self.max_length)
        return data


def _reject_surrogates(text: str) -> None:
    """Raise ValidationError for a lone surrogate, which JSON can escape but UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"Surrogate characters are not allowed: U+{ord(text[error.start]):X}."
        raise serializers.ValidationError(message) from None


class StrictListField(serializers.ListField):
    """A JSON list. Its length is checked before its items."""

    default_error_messages = {"not_a_list": "Must be a list."}

    def to_internal_value(self, data: Any) -> list[Any]:
        if isinstance(data, list) and self.min_length is not None and len(data) < self.min_length:
            noun = "entry" if self.min_length == 1 else "entries"
            raise serializers.ValidationError(f"Must have at least {self.min_length} {noun}.")
        if isinstance(data, list) and self.max_length is not None and len(data) > self.max_length:
            raise serializers.ValidationError(f"Must have at most {self.max_length} entries.")
        return super().to_internal_value(data)


class StrictUUIDField(serializers.UUIDField):
    """A UUID with hyphens, as a JSON string."""

    def to_internal_value(self, data: Any) -> UUID:
        if not isinstance(data, str) or len(data) != 36:
            raise serializers.ValidationError("Must be a UUID.")
        return super().to_internal_value(data)


class StrictChoiceField(serializers.ChoiceField):
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
