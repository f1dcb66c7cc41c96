"""The readable page of the API, made from the same OpenAPI document that programs read."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from simservice.api.addresses import base_url
from simservice.api.examples import envelope_of, family
from simservice.api.jsonschema import Schema
from simservice.api.methods import read_only
from simservice.api.openapi import document

# What a schema's keywords say, in words.
LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "maxLength": "at most {} characters",
    "maxProperties": "at most {} entries",
    "maxItems": "at most {} entries",
    "pattern": "matches {}",
    "default": "default {}",
}
CODE = re.compile("`([^`]+)`")


@read_only
def docs(request: HttpRequest) -> HttpResponse:
    """Show the whole API on one page."""
    whole = document()
    context = {
        "address": f"{base_url(request)}/v1/{settings.API_RESOURCE}",
        "tags": tags(whole),
        "shapes": [shape(name, schema) for name, schema in whole["components"]["schemas"].items()],
        "errors": [error(known) for known in sorted(family(), key=lambda known: known.status)],
    }
    return render(request, "docs.html", context)


def tags(whole: Schema) -> list[dict[str, Any]]:
    """Return the operations by their tag, in the document's order."""
    listed = [
        operation(method, path, methods[method])
        for path, methods in whole["paths"].items()
        # What makes something is told before what lists it.
        for method in sorted(methods, reverse=True)
    ]
    order = list(dict.fromkeys(one["tag"] for one in listed))
    ordered = sorted(listed, key=lambda one: order.index(one["tag"]))
    return [{"name": tag, "operations": list(group)} for tag, group in groupby(ordered, lambda one: one["tag"])]


def operation(method: str, path: str, found: Schema) -> dict[str, Any]:
    """Return what the page shows of one operation."""
    answers = [answer(status, described) for status, described in found["responses"].items()]
    return {
        "id": found["operationId"],
        "tag": found["tags"][0],
        "method": method.upper(),
        "path": path,
        "summary": found["summary"],
        "description": prose(found.get("description", "")),
        "public": not found.get("security"),
        "parameters": [parameter(one) for one in found.get("parameters", [])],
        "bodies": list(contents(found.get("requestBody", {}))),
        "answers": [one for one in answers if not one["codes"]],
        "refusals": [one for one in answers if one["codes"]],
    }


def parameter(found: Schema) -> dict[str, Any]:
    """Return one parameter as a row."""
    own = {
        "place": found["in"],
        "description": prose(found["description"]),
        "deprecated": found.get("deprecated", False),
    }
    return row(found["name"], found["schema"], required=found["required"]) | own


def answer(status: str, found: Schema) -> dict[str, Any]:
    """Return one answer: what it means, its form and an example, or the codes of its errors."""
    content = list(contents(found))
    return {
        "status": status,
        "description": found["description"],
        "content": content[0] if content else None,
        "codes": [code for one in found.get("content", {}).values() for code in one.get("examples", {})],
    }


def contents(found: Schema) -> Iterator[dict[str, Any]]:
    """Yield the forms of a body, each with its type and the first of its examples that stands there itself."""
    for media_type, content in found.get("content", {}).items():
        named = [one["value"] for one in content.get("examples", {}).values() if "value" in one]
        example = content.get("example", named[-1] if named else None)
        shown = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
        yield {"media_type": media_type, "example": shown, **type_of(content["schema"])}


def shape(name: str, schema: Schema) -> dict[str, Any]:
    """Return one of the document's objects as a table."""
    needed = schema.get("required", [])
    rows = [row(field, found, required=field in needed) for field, found in schema.get("properties", {}).items()]
    return {"name": name, "description": prose(schema.get("description", "")), "rows": rows}


def row(name: str, schema: Schema, *, required: bool) -> dict[str, Any]:
    """Return one field as a row."""
    # A format says the same as its pattern, more clearly.
    told = {name: value for name, value in schema.items() if name != "pattern" or "format" not in schema}
    notes = [words.format(plain(told[keyword])) for keyword, words in LIMITS.items() if keyword in told]
    return {
        "name": name,
        "required": required,
        "deprecated": schema.get("deprecated", False),
        "description": prose(schema.get("description", "")),
        "notes": ", ".join(notes),
        **type_of(schema),
    }


def plain(value: Any) -> str:
    """Return a keyword's value as JSON has it, without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def prose(text: str) -> SafeString:
    """Return a description as HTML, with what stands in backticks as code."""
    return mark_safe(CODE.sub(r"<code>\1</code>", escape(text)))  # noqa: S308 - all of it has just been escaped


def type_of(schema: Schema) -> dict[str, str]:
    """Return a schema's type in words, and the object that the words should lead to, if there is one."""
    return {"type": words_of(schema), "leads_to": next(named_in(schema), "")}


def words_of(schema: Schema) -> str:
    """Return a schema's type in words."""
    if "$ref" in schema:
        return name_of(schema)
    if "anyOf" in schema:
        return " or ".join(words_of(member) for member in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "items" in schema:
        nullable = " or null" if "null" in schema["type"] else ""
        return f"list of {words_of(schema['items'])}{nullable}"
    types = schema.get("type", "anything")
    known = types if isinstance(types, str) else " or ".join(types)
    return f"{known} ({schema['format']})" if "format" in schema else known


def named_in(schema: Schema) -> Iterator[str]:
    """Yield the objects that a schema names."""
    if "$ref" in schema:
        yield name_of(schema)
    for member in [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]:
        yield from named_in(member)


def name_of(reference: Mapping[str, str]) -> str:
    """Return the name at the end of a reference."""
    return reference["$ref"].rpartition("/")[2]


def error(known: Any) -> dict[str, Any]:
    """Return what the page shows of one error."""
    return {
        "code": known.code,
        "status": known.status,
        "message": known.message,
        "example": json.dumps(envelope_of(known), indent=2, ensure_ascii=False),
    }
