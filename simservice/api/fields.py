"""Strict fields and objects: `docs/reference/contract.md#types-and-times`."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, cast
from uuid import UUID

from rest_framework import serializers
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from simservice.api.errors import ValidationFailed

MAX_ISSUES = 100
MAX_ISSUE_TEXT = 200


class StrictSerializer(serializers.Serializer[Any]):
    """An object whose keys are all known; unknown ones are told together with whatever else is wrong."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = (key for key in data if key not in self.fields) if isinstance(data, Mapping) else ()
        # A body may have hundreds of thousands of them, and each issue costs time.
        problems = {key: ["Unknown field."] for key in islice(unknown, MAX_ISSUES)}
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            raise serializers.ValidationError({**problems, **cast(dict[str, Any], error.detail)}) from None
        if problems:
            raise serializers.ValidationError(problems)
        return value


class StrictBooleanField(serializers.BooleanField):
    """`true` or `false`, not a text or number that looks like it."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            raise serializers.ValidationError("Must be true or false.")
        return data


class StrictIntegerField(serializers.IntegerField):
    """An integer, also if written `60.0`; not a string and not a boolean."""

    def to_internal_value(self, data: Any) -> int:
        number = as_integer(data)
        if number is None:
            raise serializers.ValidationError("Must be an integer.")
        return number


def as_integer(data: Any) -> int | None:
    """Return a parsed JSON value as an integer, None if it is not one. Numbers too large for a float are not."""
    if isinstance(data, float):
        return int(data) if data.is_integer() else None
    return data if isinstance(data, int) and not isinstance(data, bool) else None


class StrictCharField(serializers.CharField):
    """A JSON string, kept as it was sent."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)
        # The framework's own validator checks each character, which takes 0.1 s for a profile.
        self.validators = [
            refuse_surrogates if isinstance(one, ProhibitSurrogateCharactersValidator) else one
            for one in self.validators
        ]

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError("Must be a string.")
        if self.max_length is not None and len(data) > self.max_length:
            # Before the validators, which all read the whole text.
            self.fail("max_length", max_length=self.max_length)
        return data


def refuse_surrogates(text: str) -> None:
    """Raise for a text that cannot be encoded: JSON can escape half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"Surrogate characters are not allowed: U+{ord(text[error.start]):X}."
        raise serializers.ValidationError(message) from None


class StrictListField(serializers.ListField):
    """A list that is measured before its members are looked at."""

    def to_internal_value(self, data: Any) -> list[Any]:
        if isinstance(data, list) and self.max_length is not None and len(data) > self.max_length:
            raise serializers.ValidationError(f"At most {self.max_length} entries.")
        return super().to_internal_value(data)


class StrictUUIDField(serializers.UUIDField):
    """A UUID in its usual form, as a JSON string."""

    def to_internal_value(self, data: Any) -> UUID:
        if not isinstance(data, str) or len(data) != 36:
            raise serializers.ValidationError("Must be a UUID.")
        return super().to_internal_value(data)


class StrictChoiceField(serializers.ChoiceField):
    """One of a few strings or numbers, of exactly that type."""

    def to_internal_value(self, data: Any) -> Any:
        for choice in self.choices:
            if type(data) is type(choice) and data == choice:
                return choice
        allowed = ", ".join(str(choice) for choice in self.choices)
        raise serializers.ValidationError(f"Must be one of: {allowed}.")


def iso(value: datetime) -> str:
    """Return a time in the API's format: `2026-11-20T08:10:00.123Z`."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_or_none(value: datetime | None) -> str | None:
    """Return a time in the API's format, or None."""
    return None if value is None else iso(value)


def validated(serializer: serializers.Serializer[Any]) -> Any:
    """Return the validated data of a serializer. Raises ValidationFailed naming the paths, a hundred at most."""
    if not serializer.is_valid():
        raise ValidationFailed(list(islice(issues(serializer.errors), MAX_ISSUES)))
    return serializer.validated_data


def issues(errors: Any, path: str = "") -> Iterator[dict[str, str]]:
    """Flatten the framework's nested errors into `{path, message}` rows."""
    if isinstance(errors, Mapping):
        for key, value in errors.items():
            # The framework names the places of a list by their numbers.
            yield from issues(value, f"{path}[{key}]" if isinstance(key, int) else joined(path, str(key)))
    elif isinstance(errors, list):
        for index, value in enumerate(errors):
            yield from issues(value, path if isinstance(value, str) else f"{path}[{index}]")
    else:
        yield {"path": shown(path), "message": shown(str(errors))}


def shown(text: str) -> str:
    """Return a text that may stem from the caller so that it can be sent back: encodable, and not endless."""
    return text[:MAX_ISSUE_TEXT].encode("utf-8", "backslashreplace").decode()


def joined(path: str, key: str) -> str:
    """Return the dotted path of `key` below `path`."""
    if key == "non_field_errors":
        return path
    return f"{path}.{key}" if path else key
