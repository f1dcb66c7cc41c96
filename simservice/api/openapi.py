"""The OpenAPI document: drf-spectacular walks the addresses, each view's own words make its operations."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.drainage import error
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent
from rest_framework import serializers
from rest_framework.schemas.generators import EndpointEnumerator

from simservice.api import errors, shapes
from simservice.api.errors import ApiError
from simservice.api.examples import envelope_of, family
from simservice.api.fields import StrictSerializer
from simservice.api.jsonschema import Schema, schema_of
from simservice.api.operations import (
    JSON,
    RATE_LIMIT,
    REQUEST_ID,
    STATUS_HEADERS,
    WEBHOOKS,
    Answer,
    Body,
    Header,
    Operation,
    Parameter,
    Webhook,
    operation_of,
)

# What any operation may answer; the server itself refuses addresses and headers that are too long.
ANY: Sequence[type[ApiError]] = (errors.ValidationFailed, errors.RequestTooLarge, errors.InternalError)
# What any operation that needs a key may answer besides.
KEYED: Sequence[type[ApiError]] = (
    errors.MissingToken,
    errors.InvalidToken,
    errors.RevokedToken,
    errors.ExpiredToken,
    errors.RateLimitExceeded,
    errors.ApiMaintenance,
)
STATUS_WORDS = {
    400: "The request has not the form it must have",
    401: "There is no acceptable API key",
    402: "The account cannot pay for it",
    404: "There is nothing here, or it is another account's",
    405: "The address does not take the method",
    409: "It does not fit what happened before",
    410: "It is gone",
    413: "The request is too large",
    415: "The body has another form than those named here",
    422: "The request is well formed but cannot be carried out",
    429: "Too many requests or jobs",
    500: "An error of ours",
    503: "The service cannot do this now",
}


class DocumentedSchema(AutoSchema):
    """Writes an operation from what `documented` says of the view's method."""

    common_headers: Sequence[Header] = (REQUEST_ID,)

    def get_operation(
        self,
        path: str,
        path_regex: str,  # noqa: ARG002
        path_prefix: str,  # noqa: ARG002
        method: str,
        registry: ComponentRegistry,
    ) -> Schema | None:
        """Return the operation, or nothing and an error when the method says nothing of itself."""
        self.path, self.method, self.registry = path, method, registry
        operation = operation_of(getattr(self.view, method.lower()))
        if operation is None:
            error(f"{method} {path} is not documented")
            return None
        security = self.get_auth()
        self.common_headers = (REQUEST_ID, *(RATE_LIMIT if security else ()))
        return {**self.written(operation, KEYED if security else ()), "security": security}

    def written(self, operation: Operation, common: Sequence[type[ApiError]]) -> Schema:
        """Return an operation as the document has it."""
        parts = {
            "operationId": operation.id,
            "tags": [operation.tag],
            "summary": operation.summary,
            "description": operation.description,
            "parameters": [self.parameter(parameter) for parameter in operation.parameters],
            "requestBody": self.request_body(operation.bodies),
            "responses": {
                **{str(status): self.answer(answer) for status, answer in operation.answers.items()},
                **self.refusals([*operation.errors, *ANY, *common]),
            },
        }
        return {name: part for name, part in parts.items() if part}

    def sent(self, webhook: Webhook) -> Schema:
        """Return a webhook as the document has it: an operation whose answers are the receiver's."""
        return {
            "operationId": webhook.id,
            "summary": webhook.summary,
            "description": webhook.description,
            "parameters": [self.parameter(header) for header in webhook.headers],
            "requestBody": self.request_body({JSON[0]: webhook.body}),
            "responses": {status: {"description": meaning} for status, meaning in webhook.answers.items()},
        }

    def schema(self, shape: Any) -> Schema:
        """Return the schema of a shape, of a serializer's class or of a serializer's field."""
        if isinstance(shape, serializers.Field):
            return self.field_schema(shape)
        if isinstance(shape, type) and issubclass(shape, serializers.Serializer):
            return self.resolve_serializer(shape, "request").ref
        return schema_of(shape, self.component)

    def field_schema(self, given: serializers.Field[Any, Any, Any, Any]) -> Schema:
        """Return the schema of one field of a serializer."""
        schema: Schema = self._map_serializer_field(given, "request")
        self._insert_field_validators(given, schema)
        return schema

    def _map_serializer_field(self, field: Any, direction: Any, bypass_extensions: bool = False) -> Any:  # noqa: FBT001, FBT002
        schema = super()._map_serializer_field(field, direction, bypass_extensions)
        if isinstance(field, serializers.ListField) and not field.allow_empty:
            schema = {**schema, "minItems": 1}
        # A mark for a later step of the framework's that is not taken.
        return {name: value for name, value in schema.items() if name != "x-spec-enum-id"}

    def component(self, name: str, shape: type, make: Callable[[], Schema]) -> Schema:
        """Return a reference to a component, which is made when it is first named."""
        component = ResolvedComponent(name=name, type=ResolvedComponent.SCHEMA, object=shape)
        if component not in self.registry:
            self.registry.register(component)
            component.schema = make()
        return component.ref

    def _postprocess_serializer_schema(self, schema: Schema, serializer: Any, direction: Any) -> Schema:
        schema = super()._postprocess_serializer_schema(schema, serializer, direction)
        closed = {"additionalProperties": False} if isinstance(serializer, StrictSerializer) else {}
        return {**schema, **closed}

    def parameter(self, parameter: Parameter) -> Schema:
        """Return a parameter as the document has it."""
        return {
            "name": parameter.name,
            "in": parameter.location,
            "description": parameter.description,
            "required": parameter.required or parameter.location == "path",
            "schema": self.schema(parameter.shape),
            "example": parameter.example,
            **parameter.style,
        }

    def request_body(self, bodies: Mapping[str, Body]) -> Schema | None:
        """Return the forms that the body may have, None for an operation without."""
        content = {
            media_type: {
                "schema": self.schema(body.shape),
                "examples": {name: {"value": value} for name, value in body.examples.items()},
            }
            for media_type, body in bodies.items()
        }
        return {"required": True, "content": content} if content else None

    def answer(self, answer: Answer) -> Schema:
        """Return one answer that is no error."""
        written: Schema = {"description": answer.description, "headers": self.headers(answer.headers)}
        if answer.shape is not None:
            content = {"schema": self.schema(answer.shape), "example": answer.example}
            written["content"] = dict.fromkeys(answer.media_types, content)
        if answer.links:
            written["links"] = {
                name: {"operationId": link.operation, "parameters": dict(link.parameters)}
                for name, link in answer.links.items()
            }
        return written

    def headers(self, headers: Sequence[Header]) -> Schema:
        """Return the headers of an answer, those among them that every answer of the operation has."""
        return {
            header.name: {
                "description": header.description,
                "required": header.always,
                "schema": self.schema(header.shape),
            }
            for header in [*self.common_headers, *headers]
        }

    def refusals(self, possible: Sequence[type[ApiError]]) -> Schema:
        """Return the errors that an operation may answer with, by status, each with its example."""
        by_status = groupby(sorted(possible, key=lambda error: error.status), key=lambda error: error.status)
        return {str(status): self.refusal(status, list(group)) for status, group in by_status}

    def refusal(self, status: int, possible: Sequence[type[ApiError]]) -> Schema:
        """Return the errors of one status."""
        examples = {error.code: {"$ref": f"#/components/examples/{error.code}"} for error in possible}
        codes = {"properties": {"code": {"enum": list(examples)}}}
        content = {"schema": {**self.schema(shapes.Error), **codes}, "examples": examples}
        return {
            "description": STATUS_WORDS[status],
            "headers": self.headers(STATUS_HEADERS.get(status, ())),
            "content": dict.fromkeys(JSON, content),
        }


class KeyScheme(OpenApiAuthenticationExtension):
    """What the document says of API keys."""

    # By its name, because this package knows nothing of those above it.
    target_class = "clients.authentication.KeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: AutoSchema) -> Schema:  # noqa: ARG002
        """Return the security scheme."""
        return {"type": "http", "scheme": "bearer", "description": "Authorization: Bearer <API key>"}


class DocumentGenerator(SchemaGenerator):
    """Adds the documented views that are not the framework's, the webhooks, and an example of every error."""

    webhooks: Schema

    def get_schema(self, request: Any = None, public: bool = False) -> Schema:  # noqa: FBT001, FBT002
        """Return the whole document."""
        made: Schema = super().get_schema(request, public)
        return {**made, "webhooks": self.webhooks}

    def parse(self, input_request: Any, public: bool) -> Schema:  # noqa: FBT001 - the framework's signature
        """Return all paths."""
        paths: Schema = super().parse(input_request, public)
        writer = DocumentedSchema()
        writer.registry = self.registry
        for path, operation in plain_operations(get_resolver(self.urlconf).url_patterns):
            paths[path] = {"get": writer.written(operation, ())}
        self.webhooks = {kind: {"post": writer.sent(webhook)} for kind, webhook in WEBHOOKS.items()}
        for known in family():
            self.registry.register(error_example(known))
        return paths


def plain_operations(patterns: Sequence[Any], prefix: str = "") -> Iterator[tuple[str, Operation]]:
    """Yield the path and operation of each documented view that is a plain function."""
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from plain_operations(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern) and (operation := operation_of(pattern.callback)):
            yield EndpointEnumerator().get_path_from_regex(route), operation


def error_example(known: type[ApiError]) -> ResolvedComponent:
    """Return the component that shows an error."""
    example = {"summary": known.message, "value": envelope_of(known)}
    return ResolvedComponent(name=known.code, type=ResolvedComponent.EXAMPLE, object=known, schema=example)


def document() -> Schema:
    """Return the deployment's document; each process generates it once. Mistakes in it go to stderr."""
    return _document_of(settings.API_VARIANT)


@cache
def _document_of(variant: str) -> Schema:  # noqa: ARG001  the views read the variant from the settings
    """Generate the document of a variant: its requests and answers differ, so it must not answer for the other."""
    generated: Schema = DocumentGenerator().get_schema(public=True)
    return generated


def document_text() -> str:
    """Return the document as it is served and as it is committed."""
    return _text_of(settings.API_VARIANT)


@cache
def _text_of(variant: str) -> str:
    return json.dumps(_document_of(variant), indent=2, ensure_ascii=False) + "\n"
