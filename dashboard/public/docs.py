"""The page of all operations and objects of the API, rendered from the OpenAPI document."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.gzip import gzip_page

from dashboard.public.code_examples import code_examples
from simservice.api.addresses import api_url
from simservice.api.jsonschema import Schema
from simservice.api.methods import read_only

# Texts for the keywords of a schema.
KEYWORDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "maxLength": "at most {} characters",
    "maxProperties": "at most {} entries",
    "maxItems": "at most {} items",
    "pattern": "matches {}",
    "default": "default {}",
}
CODE = re.compile("`([^`]+)`")


# Public, so its compressed size reveals no secret.
@gzip_page
@read_only
def docs(request: HttpRequest) -> HttpResponse:
    """Show all operations and objects on one page."""
    return HttpResponse(_page(address=api_url(request), brand=settings.SERVICE_BRAND, variant=settings.API_VARIANT))


# The host name in the address comes from requests, so only a few pages are kept.
@lru_cache(maxsize=4)
def _page(*, address: str, brand: str, variant: str) -> str:  # noqa: ARG001  the document depends on the variant
    """Render the page. The three arguments are all that it depends on."""
    from simservice.api.openapi import document  # imported late: it loads the generator (3 MB)

    openapi = document()
    context = {
        "address": address,
        "brand": brand,
        "tags": _tags(openapi, base=address.removesuffix(f"/v1/{settings.API_RESOURCE}")),
        "objects": [_object(name, schema) for name, schema in openapi["components"]["schemas"].items()],
    }
    return render_to_string("docs.html", context)


def _tags(openapi: Schema, *, base: str) -> list[dict[str, Any]]:
    """Return the operations grouped by tag, in the document's order. `base` is the address of the service."""
    operations = [
        _operation(method, path, methods[method], base=base)
        for path, methods in openapi["paths"].items()
        # POST comes before GET.
        for method in sorted(methods, reverse=True)
    ]
    order = list(dict.fromkeys(operation["tag"] for operation in operations))
    ordered = sorted(operations, key=lambda operation: order.index(operation["tag"]))
    groups = groupby(ordered, lambda operation: operation["tag"])
    return [{"name": tag, "operations": list(group)} for tag, group in groups]


def _operation(method: str, path: str, operation: Schema, *, base: str) -> dict[str, Any]:
    """Return an operation for the template. Responses with error codes are listed separately."""
    responses = [_response(status, response) for status, response in operation["responses"].items()]
    return {
        "id": operation["operationId"],
        "tag": operation["tags"][0],
        "method": method.upper(),
        "path": path,
        "summary": operation["summary"],
        "description": to_html(operation.get("description", "")),
        "code": code_examples(operation, method=method, path=path, base=base, resource=settings.API_RESOURCE),
        "public": not operation.get("security"),
        "parameters": [_parameter(parameter) for parameter in operation.get("parameters", [])],
        "bodies": list(_bodies(operation.get("requestBody", {}))),
        "responses": [response for response in responses if not response["codes"]],
        "errors": [response for response in responses if response["codes"]],
    }


def _parameter(parameter: Schema) -> dict[str, Any]:
    """Return a parameter as a row."""
    overrides = {
        "location": parameter["in"],
        "description": to_html(parameter["description"]),
        "deprecated": parameter.get("deprecated", False),
    }
    return _row(parameter["name"], parameter["schema"], required=parameter["required"]) | overrides


def _response(status: str, response: Schema) -> dict[str, Any]:
    """Return a response with its body and an example, or with its error codes."""
    bodies = list(_bodies(response))
    return {
        "status": status,
        "description": response["description"],
        "body": bodies[0] if bodies else None,
        "codes": [code for body in response.get("content", {}).values() for code in body.get("examples", {})],
    }


def _bodies(parent: Schema) -> Iterator[dict[str, Any]]:
    """Yield the bodies of a request or response, each with its type and its last inline example."""
    for media_type, content in parent.get("content", {}).items():
        inline = [example["value"] for example in content.get("examples", {}).values() if "value" in example]
        example = content.get("example", inline[-1] if inline else None)
        text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
        yield {"media_type": media_type, "example": text, **_type_of(content["schema"])}


def _object(name: str, schema: Schema) -> dict[str, Any]:
    """Return an object of the document as a table."""
    required = schema.get("required", [])
    rows = [_row(field, type_, required=field in required) for field, type_ in schema.get("properties", {}).items()]
    return {"name": name, "description": to_html(schema.get("description", "")), "rows": rows}


def _row(name: str, schema: Schema, *, required: bool) -> dict[str, Any]:
    """Return a field as a row."""
    # A format says the same as its pattern, but is easier to read.
    keywords = {name: value for name, value in schema.items() if name != "pattern" or "format" not in schema}
    notes = [text.format(_plain(keywords[keyword])) for keyword, text in KEYWORDS.items() if keyword in keywords]
    return {
        "name": name,
        "required": required,
        "deprecated": schema.get("deprecated", False),
        "description": to_html(schema.get("description", "")),
        "notes": ", ".join(notes),
        **_type_of(schema),
    }


def _plain(value: Any) -> str:
    """Return a value as JSON, but strings without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def to_html(text: str) -> SafeString:
    """Return a description as HTML, with backticked text as code."""
    return mark_safe(CODE.sub(r"<code>\1</code>", escape(text)))  # noqa: S308 - the text has just been escaped


def _type_of(schema: Schema) -> dict[str, str]:
    """Return a schema's type as text, and the object it links to, if any."""
    return {"type": _type_text(schema), "object": next(_objects_in(schema), "")}


def _type_text(schema: Schema) -> str:
    """Return a schema's type as text."""
    if "$ref" in schema:
        return _name_of(schema)
    if "anyOf" in schema:
        return " or ".join(_type_text(member) for member in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "items" in schema:
        nullable = " or null" if "null" in schema["type"] else ""
        return f"list of {_type_text(schema['items'])}{nullable}"
    types = schema.get("type", "any")
    names = types if isinstance(types, str) else " or ".join(types)
    return f"{names} ({schema['format']})" if "format" in schema else names


def _objects_in(schema: Schema) -> Iterator[str]:
    """Yield the names of the objects that a schema refers to."""
    if "$ref" in schema:
        yield _name_of(schema)
    for member in [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]:
        yield from _objects_in(member)


def _name_of(reference: Mapping[str, str]) -> str:
    """Return the name at the end of a reference."""
    return reference["$ref"].rpartition("/")[2]
