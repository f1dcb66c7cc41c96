"""Checks a response against the handwritten contract and the OpenAPI document."""

import json
import re
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from simservice.api.openapi import document
from tests.jobs.api.contract.operations import responses
from tests.jobs.api.contract.types import check
from tests.jobs.api.error_cases import error

PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


def json_body(response: Any) -> Any:
    """Return the parsed body of a response, streamed or not."""
    content = b"".join(response.streaming_content) if response.streaming else response.content
    assert response.headers["Content-Type"] == "application/json"
    return json.loads(content)


def documented(response: Any) -> tuple[str, Any]:
    """Return the id of the operation that sent a response, and its schema in the document."""
    path = "/" + PARAMETER.sub(r"{\1}", response.resolver_match.route)
    operation = document()["paths"][path].get(response.wsgi_request.method.lower())
    if operation is None:
        assert response.status_code == 405
        return "", {"$ref": "#/components/schemas/Error"}
    content = operation["responses"][str(response.status_code)]["content"]["application/json"]
    return operation["operationId"], content["schema"]


def check_document(value: Any, schema: Any) -> None:
    """Raise ValidationError unless a value matches a schema of the document."""
    resolved = {**schema, "components": document()["components"]}
    Draft202012Validator(resolved, format_checker=FormatChecker()).validate(value)


def checked(response: Any, variant: str) -> Any:
    """Return the body of a response after checking it against contract and document."""
    body = json_body(response)
    operation, schema = documented(response)
    check_document(body, schema)
    if response.status_code == 200:
        check(body, responses(variant)[operation])
    else:
        check(body, error(response.status_code, body["code"]))
    return body
