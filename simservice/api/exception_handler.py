"""How an exception in an API view becomes the error envelope."""

import logging
from collections.abc import Mapping
from functools import singledispatch
from typing import Any

from django.core.exceptions import BadRequest, DisallowedHost, SuspiciousOperation
from django.http import Http404, UnreadablePostError
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import set_rollback

from simservice.api.addresses import base_url
from simservice.api.errors import (
    ApiError,
    DatabaseUnavailable,
    InternalError,
    InvalidJson,
    MethodNotAllowed,
    NotFound,
    UnsupportedMediaType,
    ValidationFailed,
    envelope,
)
from simservice.postgresql.connections import DATABASE_UNAVAILABLE

logger = logging.getLogger(__name__)

FRAMEWORK_ERRORS: dict[type[Exception], type[ApiError]] = {
    exceptions.MethodNotAllowed: MethodNotAllowed,
    exceptions.UnsupportedMediaType: UnsupportedMediaType,
    exceptions.NotFound: NotFound,
    exceptions.ParseError: InvalidJson,
    Http404: NotFound,
}
# What Django raises for malformed or truncated requests.
MALFORMED = (BadRequest, SuspiciousOperation, UnreadablePostError)
HOST_NOT_ALLOWED = "The request's host name is not in ALLOWED_HOSTS, a setting of the service."


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> Response:
    """Return the error envelope for an exception of a view. Unknown exceptions are logged and become a 500."""
    request: Request = context["request"]
    set_rollback()
    error = as_api_error(exc)
    if isinstance(exc, exceptions.UnsupportedMediaType):
        accepted = ", or ".join(parser.accepts for parser in context["view"].parser_classes)
        error.message = f"Send Content-Type: {accepted}."
    if error.status == InternalError.status:
        logger.error("request %s failed", request.META["REQUEST_ID"], exc_info=exc)
    if isinstance(exc, DATABASE_UNAVAILABLE):
        logger.error("request %s found no database: %s", request.META["REQUEST_ID"], exc)
    add_docs_url(request, error)
    headers = dict(error.headers)
    if isinstance(exc, exceptions.MethodNotAllowed):
        headers["Allow"] = ", ".join(context["view"].allowed_methods)
    return Response(envelope(error, request.META["REQUEST_ID"]), status=error.status, headers=headers)


@singledispatch
def as_api_error(exc: Exception) -> ApiError:
    """Return the HTTP error for an exception. Apps register the translations of their own errors."""
    if isinstance(exc, ApiError):
        return exc
    if isinstance(exc, MALFORMED):
        return malformed(exc)
    if isinstance(exc, DATABASE_UNAVAILABLE):
        return DatabaseUnavailable()
    return FRAMEWORK_ERRORS.get(type(exc), InternalError)()


def malformed(exc: Exception) -> ValidationFailed:
    """Return the error of a request that is broken as a whole rather than at one place."""
    message = HOST_NOT_ALLOWED if isinstance(exc, DisallowedHost) else "The request is malformed."
    error = ValidationFailed([{"path": "", "message": message}])
    # Pages show no issues.
    error.message = message
    return error


def add_docs_url(request: Request, error: ApiError) -> None:
    """Add the address of the error's explanation to its `meta`, if it has one."""
    if error.documented:
        error.meta = {**(error.meta or {}), "docsUrl": f"{base_url(request)}/docs/errors#{error.code}"}
