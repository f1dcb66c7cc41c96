"""Types of JSON values that all endpoints share.

A shape is a TypedDict or a dataclass: mypy checks the code that builds a response against it, and the OpenAPI
document is generated from it. The arguments of `Annotated` are for the document only: a string is a description, a
`Rule` contains keywords of JSON Schema. The JSON of a dataclass has its fields in camel case, and omits those
with the default value unless they are marked with `ALWAYS`.
"""

import re
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict, Union, get_args, get_origin, get_type_hints


class Rule:
    """Keywords of JSON Schema that a type cannot express."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords


Time = Annotated[
    str, Rule(format="date-time", pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$")
]
Date = Annotated[str, Rule(format="date")]
Url = Annotated[str, Rule(format="uri")]
Uuid = Annotated[str, Rule(format="uuid")]
Id = Annotated[str, Rule(pattern="^[0-9]{18}$")]
Count = Annotated[int, Rule(minimum=0)]
Percent = Annotated[float, Rule(minimum=0, maximum=100)]
FreeObject = dict[str, Any]


class Error(TypedDict):
    """An error. Programs should use `code`; the text of `error` can change at any time."""

    error: Annotated[str, "What went wrong, as a sentence"]
    code: Annotated[str, "Stable code for programs"]
    meta: Annotated[FreeObject | None, "Details that depend on the code, or null"]
    requestId: Annotated[str, Rule(pattern="^req_[0-9a-f]{32}$"), "The same as in the X-Request-Id header"]
    priorityFeeCredits: NotRequired[Annotated[int, "Present if the account cannot pay for a high-priority job"]]


# Marks a field of a dataclass that the JSON always has.
ALWAYS = Rule()


class JsonField(NamedTuple):
    """A field of a dataclass and its key in JSON."""

    name: str
    key: str
    hint: Any
    is_required: bool


@cache
def json_fields(kind: Any) -> list[JsonField]:
    """Return the fields of a dataclass. `class_name` stands for `class`, which Python reserves."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        JsonField(
            name=each.name,
            key=re.sub("_(.)", lambda match: match[1].upper(), each.name.removesuffix("_name")),
            hint=hints[each.name],
            is_required=ALWAYS in get_args(hints[each.name]),
        )
        for each in fields(kind)
    ]


def without_none(hint: Any) -> Any:
    """Return an optional type without None, with the arguments of `Annotated`."""
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        return Annotated[without_none(inner), *notes]
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (member for member in get_args(hint) if member is not NoneType)
    return hint


def bare_type(hint: Any) -> Any:
    """Return an optional type without None and without the arguments of `Annotated`."""
    hint = without_none(hint)
    return bare_type(get_args(hint)[0]) if get_origin(hint) is Annotated else hint
