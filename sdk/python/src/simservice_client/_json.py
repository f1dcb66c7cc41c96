"""Conversion between JSON and the objects of the API."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from datetime import date, datetime
from functools import cache
from typing import Any, Union

if typing.TYPE_CHECKING:
    from typing_extensions import Self


def key(name: str, **options: Any) -> Any:
    """Return a field whose name in JSON is different."""
    return field(metadata={"key": name}, **options)


@dataclass(frozen=True, kw_only=True)
class Model:
    """Base of all objects. Fields that this version does not know are ignored, so that the API can add some."""

    @classmethod
    def from_json(cls, data: typing.Mapping[str, Any]) -> Self:
        """Return the object of a JSON object. Raises KeyError, TypeError or ValueError if it does not fit."""
        values = {}
        for name, (key_name, hint, is_required) in _fields(cls).items():
            if key_name in data:
                values[name] = _decode(hint, data[key_name])
            elif is_required:
                raise KeyError(key_name)
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Return the object as in the API, without absent optional fields.

        >>> from simservice_client.models import Ceiling
        >>> Ceiling(max_credits=3200, runtime_seconds=100, queue_seconds=1800).to_json()
        {'maxCredits': 3200, 'runtimeSeconds': 100, 'queueSeconds': 1800}
        """
        return {
            key_name: _encode(value)
            for name, (key_name, _, is_required) in _fields(type(self)).items()
            if (value := getattr(self, name)) is not None or is_required
        }


def _read_fields(model: type[Any]) -> dict[str, tuple[str, Any, bool]]:
    """Return the key in JSON, the type and whether it is required, by field."""
    hints = typing.get_type_hints(model)
    return {
        each.name: (each.metadata.get("key", each.name), hints[each.name], each.default is MISSING)
        for each in fields(model)
    }


_fields: Callable[[Any], dict[str, tuple[str, Any, bool]]] = cache(_read_fields)


def _decode(hint: Any, value: Any) -> Any:
    """Return a JSON value as an instance of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (hint,) = [each for each in arguments if each is not type(None)][:1]
        return _decode(hint, value)
    if origin is list:
        return [_decode(arguments[0], each) for each in value]
    if origin is dict:
        return {name: _decode(arguments[1], each) for name, each in value.items()}
    if hint is datetime:
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    if hint is date:
        return date.fromisoformat(value)
    return hint.from_json(value) if isinstance(hint, type) and issubclass(hint, Model) else value


def _encode(value: Any) -> Any:
    """Return a value of an object as JSON."""
    if isinstance(value, Model):
        return value.to_json()
    if isinstance(value, list):
        return [_encode(each) for each in value]
    if isinstance(value, dict):
        return {name: _encode(each) for name, each in value.items()}
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
