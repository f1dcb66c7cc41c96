"""JSON Schema of shapes: each TypedDict and each dataclass becomes a component of the OpenAPI document.

drf-spectacular's `resolve_type_hint` repeats a TypedDict wherever it is used, ignores `Annotated`, allows unknown
fields and sorts `required`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from simservice.shapes import Rule, json_fields, without_none

Schema = dict[str, Any]
# Takes the name of a component, its type and a function that returns its schema. Returns a reference to it.
Register = Callable[[str, type, Callable[[], Schema]], Schema]
PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
}


def schema_of(hint: Any, register: Register) -> Schema:
    """Return the schema of a type. Raises TypeError if shapes do not support it."""
    if hint in PLAIN:
        return dict(PLAIN[hint])
    if is_typeddict(hint) or is_dataclass(hint):
        return register(getattr(hint, "schema_name", hint.__name__), hint, lambda: _object_schema(hint, register))
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return _enum_schema([member.value for member in hint])
    return _composed_schema(hint, register)


def _composed_schema(hint: Any, register: Register) -> Schema:
    """Return the schema of a generic type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated_schema(schema_of(arguments[0], register), arguments[1:])
    if origin is Literal:
        return _enum_schema(list(arguments))
    if origin in (Union, UnionType):
        return _union_schema([schema_of(argument, register) for argument in arguments])
    if origin in (list, tuple):
        return {"type": "array", "items": schema_of(arguments[0], register)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1], register)}
    raise TypeError(f"shapes do not support {hint!r}")


def _object_schema(shape: Any, register: Register) -> Schema:
    """Return the schema of a TypedDict or a dataclass, which allows no further fields."""
    if is_dataclass(shape):
        hints = {each.key: without_none(each.hint) for each in json_fields(shape)}  # type: ignore[arg-type]
        required = [each.key for each in json_fields(shape) if each.is_required]  # type: ignore[arg-type]
    else:
        hints = get_type_hints(shape, include_extras=True)
        required = [name for name in hints if name in shape.__required_keys__]
    properties = {
        name: schema_of(get_args(hint)[0] if get_origin(hint) is NotRequired else hint, register)
        for name, hint in hints.items()
    }
    return {
        "type": "object",
        "description": inspect.cleandoc(shape.__doc__),
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _annotated_schema(schema: Schema, notes: tuple[Any, ...]) -> Schema:
    """Return the schema with the arguments of `Annotated`: descriptions and rules."""
    for note in notes:
        schema |= note.keywords if isinstance(note, Rule) else {"description": note}
    return schema


def _enum_schema(values: list[Any]) -> Schema:
    """Return the schema of values of one type."""
    return {**PLAIN[type(values[0])], "enum": values}


def _union_schema(members: list[Schema]) -> Schema:
    """Return the schema of a union, as a list of types if possible."""
    described = [member for member in members if member != PLAIN[NoneType]]
    nullable = len(described) < len(members)
    if all(member.keys() == {"type"} for member in members):
        return {"type": [member["type"] for member in members]}
    if nullable and len(described) == 1 and "type" in described[0]:
        return _nullable_schema(described[0])
    return {"anyOf": members}


def _nullable_schema(schema: Schema) -> Schema:
    also = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **also}
