"""JSON Schema of shapes."""

from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from simservice.api.jsonschema import Register, Schema, schema_of
from simservice.shapes import Rule


class Colour(StrEnum):
    RED = "red"


class Inner(TypedDict):
    """An inner shape."""

    many: list[int]


class Outer(TypedDict):
    """An outer shape."""

    inner: Inner | None
    perhaps: NotRequired[Annotated[str | None, Rule(maxLength=3), "Short"]]


def into(components: Schema) -> Register:
    """Return a function that registers components in a mapping."""

    def register(name: str, shape: type, make: Any) -> Schema:
        components[name] = make()
        return {"$ref": name}

    return register


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, {"type": "integer"}),
        (Any, {}),
        (str | None, {"type": ["string", "null"]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[True], {"type": "boolean", "enum": [True]}),
        (Colour | None, {"type": ["string", "null"], "enum": ["red", None]}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (list[str] | int, {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "integer"}]}),
        (Annotated[int, Rule(minimum=1), "One"], {"type": "integer", "minimum": 1, "description": "One"}),
    ],
    ids=["plain", "any", "or null", "literal", "true", "enum", "map", "union", "annotated"],
)
def test_types_become_schemas(hint: Any, schema: Schema) -> None:
    assert schema_of(hint, into({})) == schema


def test_a_typed_dict_becomes_a_closed_component() -> None:
    components: Schema = {}
    assert schema_of(Outer, into(components)) == {"$ref": "Outer"}
    assert components["Inner"]["required"] == ["many"]
    assert components["Outer"] == {
        "type": "object",
        "description": "An outer shape.",
        "properties": {
            "inner": {"anyOf": [{"$ref": "Inner"}, {"type": "null"}]},
            "perhaps": {"type": ["string", "null"], "maxLength": 3, "description": "Short"},
        },
        "required": ["inner"],
        "additionalProperties": False,
    }


def test_types_without_a_json_form_are_rejected() -> None:
    with pytest.raises(TypeError, match="set"):
        schema_of(set[int], into({}))
