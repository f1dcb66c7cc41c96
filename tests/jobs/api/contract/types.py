"""Building blocks of the handwritten schemas: strict JSON Schema."""

from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, validators

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
TRUE: Schema = {"const": True}
COUNT: Schema = {"type": "integer", "minimum": 0}
POSITIVE: Schema = {"type": "integer", "minimum": 1}
NUMBER: Schema = {"type": "number"}
PERCENT: Schema = {"type": "number", "minimum": 0, "maximum": 100}
NULL: Schema = {"type": "null"}


def matching(pattern: str) -> Schema:
    """Return the schema of a string that matches the whole pattern."""
    return {"type": "string", "pattern": rf"\A(?:{pattern})\Z"}


def one_of(*values: str) -> Schema:
    return {"enum": list(values)}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, NULL]}


def many(schema: Schema, max_items: int | None = None) -> Schema:
    return {"type": "array", "items": schema} | ({"maxItems": max_items} if max_items else {})


def an_object(fields: dict[str, Schema], **optional: Schema) -> Schema:
    """Return the schema of an object with these fields, some of them optional, and no others."""
    return {
        "type": "object",
        "properties": fields | optional,
        "required": list(fields),
        "additionalProperties": False,
    }


ID = matching("[0-9]{18}")
UUID = matching("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = matching(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
DATE = matching("[0-9]{4}-[0-9]{2}-[0-9]{2}")
REQUEST_ID = matching("req_[0-9a-f]{32}")
SHARE = matching("https?://[^/]+/share/[A-Za-z0-9_-]{22}")
MANIFEST_URL = matching("https?://[^/]+/manifests/[A-Za-z0-9_-]{22}")
DOWNLOAD = matching("https?://[^/]+/artifacts/[A-Za-z0-9_-]{22}")
DOCS = matching("https?://[^/]+/docs/(?:errors|api)#[a-z_]+")
METADATA: Schema = {
    "type": "object",
    "additionalProperties": {"type": "string", "maxLength": 500},
    "maxProperties": 20,
}

STATUS = one_of("pending", "queued", "running", "completed", "failed", "cancelled", "timed_out")
TERMINAL = one_of("completed", "failed", "cancelled", "timed_out")
UNFINISHED = one_of("pending", "queued", "running")
WAITING = one_of("pending", "queued")
CHANNEL = one_of("nightly", "weekly", "latest")
PRIORITY = one_of("high", "standard", "background")
LABEL = one_of("initial", "intermediate", "final")
ERROR_CODE = {
    "enum": [
        None, "queue_timeout", "user_cancelled", "execution_timeout", "max_credits_reached", "insufficient_credits",
        "simulation_error", "execution_failed", "input_invalid", "build_unavailable", "execution_interrupted",
        "internal",
    ]
}  # fmt: skip


def is_integer(_: Any, value: Any) -> bool:
    """Return whether a value is written as an integer. JSON Schema itself also accepts 1.0."""
    return isinstance(value, int) and not isinstance(value, bool)


Strict = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", is_integer)
)


def check(value: Any, schema: Schema) -> None:
    """Raise jsonschema.ValidationError unless a value matches a schema, which is not checked itself."""
    Strict(schema, format_checker=FormatChecker()).validate(value)
