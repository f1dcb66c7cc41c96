"""The OpenAPI document, generated from the `Operation` of each view.

drf-spectacular lists the endpoints, collects the components and describes the fields of requests. The rest is here,
because drf-spectacular cannot
- write links, headers that are sometimes absent, or references to shared examples of errors,
- include views that are plain functions,
- write the headers of a webhook; it also leaves out components that only webhooks use.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import cache
from itertools import groupby
from typing import Any, cast

from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.drainage import error
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent
from rest_framework import serializers
from rest_framework.schemas.generators import EndpointEnumerator

from simservice import shapes
from simservice.api import errors
from simservice.api.endpoint import Endpoint
from simservice.api.errors import ApiError, envelope_of, family
from simservice.api.fields import StrictSerializer
from simservice.api.jsonschema import Schema, schema_of
from simservice.api.operations import (
    JSON,
    RATE_LIMIT,
    REQUEST_ID,
    SAFE_METHODS,
    STATUS_HEADERS,
    WEBHOOKS,
    Body,
    FreeExample,
    Header,
    Operation,
    Parameter,
    ResponseSpec,
    Source,
    Webhook,
    operation_of,
)
from simservice.api.scopes import Scope

# Errors that every operation can return. The server itself rejects URLs and headers that are too long.
COMMON_ERRORS: Sequence[type[ApiError]] = (errors.ValidationFailed, errors.RequestTooLarge, errors.InternalError)
# Errors of operations that need an API key.
KEY_ERRORS: Sequence[type[ApiError]] = (
    errors.MissingToken,
    errors.InvalidToken,
    errors.RevokedToken,
    errors.ExpiredToken,
    errors.AddressNotAllowed,
    errors.RateLimitExceeded,
    errors.ApiMaintenance,
)
ERROR_DESCRIPTIONS = {
    400: "The request is invalid.",
    401: "The API key is missing or not accepted.",
    402: "The account does not have enough credits or is suspended.",
    403: "The API key does not allow the request, or is not accepted from this address.",
    404: "The resource does not exist or belongs to another account.",
    405: "The path does not support the method.",
    409: "The request conflicts with the current state.",
    410: "The resource has expired.",
    413: "The request is too large.",
    415: "The media type of the body is not supported.",
    416: "The requested range starts after the end of the content.",
    422: "The request is well formed but cannot be processed.",
    429: "Too many requests or too many unfinished jobs.",
    500: "Internal error.",
    503: "The service is temporarily unavailable.",
}


PATH_PARAMETER = re.compile(r"{(\w+)}")


def _key_errors(needed: Scope) -> Sequence[type[ApiError]]:
    """Return the errors of an operation that needs a scope. Every key has the lowest one."""
    return KEY_ERRORS if needed == Scope.READ else (*KEY_ERRORS, errors.InsufficientScope, errors.ReadOnlyKey)


class DocumentedSchema(AutoSchema):
    """Describes the operation that `documented` attached to the view's method."""

    common_headers: Sequence[Header]

    def get_operation(
        self,
        path: str,
        path_regex: str,  # noqa: ARG002
        path_prefix: str,  # noqa: ARG002
        method: str,
        registry: ComponentRegistry,
    ) -> Schema | None:
        """Return the operation; None, and report an error, if the method is not documented."""
        self.path, self.method, self.registry = path, method, registry
        operation = operation_of(getattr(self.view, method.lower()))
        if operation is None:
            error(f"{method} {path} is not documented")
            return None
        endpoint = cast(Endpoint, self.view)
        operation = replace(
            operation,
            parameters=[*operation.parameters, *endpoint.common_parameters],
            returns=replace(operation.returns, headers=[*endpoint.common_headers, *operation.returns.headers]),
            also={**operation.also, **endpoint.common_responses},
        )
        security, needed = self.get_auth(), operation.required_scope(method)
        described = {
            **self.operation_object(operation, _key_errors(needed) if security else ()),
            "security": security,
            **_free_examples(operation, method=method, path=path),
        }
        return {**described, "x-scope": str(needed)} if security else described

    def operation_object(self, operation: Operation, key_errors: Sequence[type[ApiError]] = ()) -> Schema:
        """Return the Operation Object of a documented view."""
        is_limited = errors.RateLimitExceeded in (*operation.errors, *key_errors)
        self.common_headers = (REQUEST_ID, *(RATE_LIMIT if is_limited else ()))
        parts = {
            "operationId": operation.id,
            "tags": [operation.tag],
            "summary": operation.summary,
            "description": operation.description,
            "parameters": [self._parameter(parameter) for parameter in operation.parameters],
            "requestBody": self._request_body(operation.bodies),
            "responses": {
                "200": self._response(operation.returns),
                **{str(status): self._response(response) for status, response in operation.also.items()},
                **self._error_responses([*operation.errors, *COMMON_ERRORS, *key_errors]),
            },
        }
        return {name: part for name, part in parts.items() if part}

    def webhook_object(self, webhook: Webhook) -> Schema:
        """Return the Operation Object of a webhook."""
        return {
            "operationId": webhook.id,
            "summary": webhook.summary,
            "description": webhook.description,
            "parameters": [self._parameter(header) for header in webhook.headers],
            "requestBody": self._request_body({JSON[0]: webhook.body}),
            "responses": {status: {"description": text} for status, text in webhook.responses.items()},
        }

    def _schema(self, shape: Any) -> Schema:
        """Return the schema of a type, a serializer class or a serializer field."""
        if isinstance(shape, serializers.Field):
            return self.field_schema(shape)
        if isinstance(shape, type) and issubclass(shape, serializers.Serializer):
            return self.resolve_serializer(shape, "request").ref
        return schema_of(shape, self._component)

    def field_schema(self, field: serializers.Field[Any, Any, Any, Any]) -> Schema:
        """Return the schema of a field of a request."""
        schema: Schema = self._map_serializer_field(field, "request")
        self._insert_field_validators(field, schema)
        return schema

    def _map_serializer_field(self, field: Any, direction: Any, bypass_extensions: bool = False) -> Any:  # noqa: FBT001, FBT002
        schema = super()._map_serializer_field(field, direction, bypass_extensions)
        # A mark for `postprocess_schema_enums`, a hook that is not used: enums stay where they are.
        return {name: value for name, value in schema.items() if name != "x-spec-enum-id"}

    def _component(self, name: str, shape: type, make: Callable[[], Schema]) -> Schema:
        """Return a reference to a component, which is created on first use."""
        component = ResolvedComponent(name=name, type=ResolvedComponent.SCHEMA, object=shape)
        if component not in self.registry:
            self.registry.register(component)
            component.schema = make()
        return component.ref

    def _postprocess_serializer_schema(self, schema: Schema, serializer: Any, direction: Any) -> Schema:
        schema = super()._postprocess_serializer_schema(schema, serializer, direction)
        # drf-spectacular does not know that a StrictSerializer rejects unknown fields.
        closed = {"additionalProperties": False} if isinstance(serializer, StrictSerializer) else {}
        return {**schema, **closed}

    def _parameter(self, parameter: Parameter) -> Schema:
        """Return the Parameter Object."""
        return {
            "name": parameter.name,
            "in": parameter.location,
            "description": parameter.description,
            "required": parameter.required or parameter.location == "path",
            "schema": self._schema(parameter.shape),
            "example": parameter.example,
            **parameter.style,
        }

    def _request_body(self, bodies: Mapping[str, Body]) -> Schema | None:
        """Return the Request Body Object, None for an operation without a body."""
        content = {
            media_type: {
                "schema": self._schema(body.shape),
                "examples": {name: {"value": value} for name, value in body.examples.items()},
            }
            for media_type, body in bodies.items()
        }
        return {"required": True, "content": content} if content else None

    def _response(self, response: ResponseSpec) -> Schema:
        """Return the Response Object."""
        written: Schema = {"description": response.description, "headers": self._headers(response.headers)}
        if response.shape is not None:
            content = {"schema": self._schema(response.shape), "example": response.example}
            written["content"] = dict.fromkeys(response.media_types, content)
        if response.links:
            written["links"] = {
                name: {"operationId": link.operation, "parameters": dict(link.parameters)}
                for name, link in response.links.items()
            }
        return written

    def _headers(self, headers: Sequence[Header]) -> Schema:
        """Return the Header Objects of a response, including those of all responses of the operation."""
        return {
            header.name: {
                "description": header.description,
                "required": header.always,
                "schema": self._schema(header.shape),
            }
            for header in [*self.common_headers, *headers]
        }

    def _error_responses(self, possible: Sequence[type[ApiError]]) -> Schema:
        by_status = groupby(sorted(possible, key=lambda error: error.status), key=lambda error: error.status)
        return {str(status): self._error_response(status, list(group)) for status, group in by_status}

    def _error_response(self, status: int, possible: Sequence[type[ApiError]]) -> Schema:
        """Return the Response Object of the errors with one status."""
        examples = {error.code: {"$ref": f"#/components/examples/{error.code}"} for error in possible}
        codes = {"properties": {"code": {"enum": list(examples)}}}
        content = {"schema": {**self._schema(shapes.Error), **codes}, "examples": examples}
        return {
            "description": ERROR_DESCRIPTIONS[status],
            "headers": self._headers(STATUS_HEADERS.get(status, ())),
            "content": dict.fromkeys(JSON, content),
        }


class KeyScheme(OpenApiAuthenticationExtension):
    """Security scheme of API keys."""

    # By name, because this package must not import `clients`.
    target_class = "clients.authentication.KeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: AutoSchema) -> Schema:  # noqa: ARG002
        """Return the security scheme."""
        return {"type": "http", "scheme": "bearer", "description": "Authorization: Bearer <API key>"}


class DocumentGenerator(SchemaGenerator):
    """Adds plain views, webhooks and an example of every error."""

    webhooks: Schema

    def get_schema(self, request: Any = None, public: bool = False) -> Schema:  # noqa: FBT001, FBT002
        """Return the whole document."""
        generated: Schema = super().get_schema(request, public)
        return {**generated, "webhooks": self.webhooks}

    def parse(self, input_request: Any, public: bool) -> Schema:  # noqa: FBT001 - the framework's signature
        """Return all paths."""
        paths: Schema = super().parse(input_request, public)
        schema = DocumentedSchema()
        schema.registry = self.registry
        for path, operation in _plain_operations(get_resolver(self.urlconf).url_patterns):
            examples = _free_examples(operation, method="GET", path=path)
            paths[path] = {"get": {**schema.operation_object(operation), **examples}}
        self.webhooks = {kind: {"post": schema.webhook_object(webhook)} for kind, webhook in WEBHOOKS.items()}
        for error_class in family():
            self.registry.register(_error_example(error_class))
        return paths


def _plain_operations(patterns: Sequence[Any], prefix: str = "") -> Iterator[tuple[str, Operation]]:
    """Yield path and operation of each documented view that is a plain function."""
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _plain_operations(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern) and (operation := operation_of(pattern.callback)):
            yield EndpointEnumerator().get_path_from_regex(route), operation


def _free_examples(operation: Operation, *, method: str, path: str) -> Schema:
    """Return the extension `x-free-examples` of an operation, empty if all of its requests cost something."""
    sources = {each.name: each.source for each in operation.parameters if each.source}
    choices = {each.name: each.example for each in operation.parameters if _is_choice(each)}
    path = PATH_PARAMETER.sub(lambda found: choices.get(found[1], found[0]), path)
    can_be_read = method in SAFE_METHODS and all(name in sources for name in PATH_PARAMETER.findall(path))
    own = [FreeExample(summary=operation.summary)] if can_be_read else []
    examples = [
        _free_example(example, method=method, path=path, sources=sources)
        for example in operation.free_examples or own
    ]
    return {"x-free-examples": examples} if examples else {}


def _is_choice(parameter: Parameter) -> bool:
    """Return whether a parameter in the path has one of a few values, so that its example always works."""
    shape = parameter.shape
    return parameter.location == "path" and isinstance(shape, type) and issubclass(shape, Enum)


def _free_example(example: FreeExample, *, method: str, path: str, sources: Mapping[str, Source]) -> Schema:
    """Return a free example as a request, and where to find the values of its path parameters."""
    written: Schema = {"summary": example.summary, "method": method}
    written["path"] = f"{path}?{example.query}" if example.query else path
    if sources:
        written["parameters"] = {
            name: {
                "operationId": source.operation,
                "pointer": source.pointer,
                **({"lastSegment": True} if source.is_last_segment else {}),
            }
            for name, source in sources.items()
        }
    if example.media_type:
        written |= {"headers": {"Content-Type": example.media_type}, "body": example.body}
    return written


def _error_example(error_class: type[ApiError]) -> ResolvedComponent:
    """Return the component with the example of an error."""
    example = {"summary": error_class.message, "value": envelope_of(error_class)}
    return ResolvedComponent(
        name=error_class.code, type=ResolvedComponent.EXAMPLE, object=error_class, schema=example
    )


def document() -> Schema:
    """Return the deployment's document, generated once per process. Errors are written to stderr."""
    return _document_of(settings.API_VARIANT)


@cache
def _document_of(variant: str) -> Schema:  # noqa: ARG001  the views read the variant from the settings
    """Generate the document of a variant; the cache has one for each."""
    generated: Schema = DocumentGenerator().get_schema(public=True)
    return generated


def document_text() -> str:
    """Return the document as the API returns it and as `docs/openapi.json` contains it."""
    return _text_of(settings.API_VARIANT)


@cache
def _text_of(variant: str) -> str:
    return json.dumps(_document_of(variant), indent=2, ensure_ascii=False) + "\n"
