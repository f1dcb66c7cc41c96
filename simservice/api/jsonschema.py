"""JSON Schema of the shapes: each TypedDict becomes a named component of the OpenAPI document."""

import inspect
from collections.abc import Callable
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from simservice.api.shapes import Rule

Schema = dict[str, Any]
# Takes a component's name, the type it is made from and what makes its schema, and returns a reference to it.
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
    """Return the schema of a type as shapes use them. Raises TypeError for any other."""
    if hint in PLAIN:
        return dict(PLAIN[hint])
    if is_typeddict(hint):
        return register(hint.__name__, hint, lambda: object_schema(hint, register))
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return enum_schema([member.value for member in hint])
    return composed_schema(hint, register)


def composed_schema(hint: Any, register: Register) -> Schema:
    """Return the schema of a type that is made of others."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return annotated_schema(schema_of(arguments[0], register), arguments[1:])
    if origin is Literal:
        return enum_schema(list(arguments))
    if origin in (Union, UnionType):
        return union_schema([schema_of(argument, register) for argument in arguments])
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0], register)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], register)}
    raise TypeError(f"{hint!r} has no place in a shape")


def object_schema(shape: Any, register: Register) -> Schema:
    """Return the schema of a TypedDict's own fields; others may not be there."""
    properties = {
        name: schema_of(get_args(hint)[0] if get_origin(hint) is NotRequired else hint, register)
        for name, hint in get_type_hints(shape, include_extras=True).items()
    }
    required = [name for name in properties if name in shape.__required_keys__]
    return {
        "type": "object",
        "description": inspect.cleandoc(shape.__doc__),
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def annotated_schema(schema: Schema, notes: tuple[Any, ...]) -> Schema:
    """Add what `Annotated` says: a text describes, a Rule has keywords."""
    for note in notes:
        schema |= note.keywords if isinstance(note, Rule) else {"description": note}
    return schema


def enum_schema(values: list[Any]) -> Schema:
    """Return the schema of one of a few values of one type."""
    return {**PLAIN[type(values[0])], "enum": values}


def union_schema(members: list[Schema]) -> Schema:
    """Return the schema of any of the members, with one list of types where that says all of it."""
    described = [member for member in members if member != PLAIN[NoneType]]
    nullable = len(described) < len(members)
    if all(member.keys() == {"type"} for member in members):
        return {"type": [member["type"] for member in members]}
    if nullable and len(described) == 1 and "type" in described[0]:
        return nullable_schema(described[0])
    return {"anyOf": members}


def nullable_schema(schema: Schema) -> Schema:
    """Return a schema that takes null too."""
    also = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **also}
