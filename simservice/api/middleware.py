"""Middleware for request ids, rate limit headers and maintenance."""

import secrets
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from simservice.api.addresses import is_compatible_path
from simservice.api.errors import ApiMaintenance, error_response
from simservice.telemetry.logs import log_ids

# Key in `request.META` of the rate limit headers for the response
RATE_LIMIT_HEADERS = "RATE_LIMIT_HEADERS"


def new_request_id() -> str:
    """Return `req_` and 32 hexadecimal digits (docs/reference/api.md#response-headers)."""
    return f"req_{secrets.token_hex(16)}"


class RequestIdMiddleware:
    """Gives each request an id and adds headers to its response. Ignores ids sent by clients."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.META["REQUEST_ID"] = new_request_id()
        with log_ids(request_id=request.META["REQUEST_ID"]):
            response = self.get_response(request)
        response["X-Request-Id"] = request.META["REQUEST_ID"]
        for name, value in request.META.get(RATE_LIMIT_HEADERS, {}).items():
            response[name] = value
        return response


class MaintenanceMiddleware:
    """Responds to all API requests with 503 while `MAINTENANCE_SECONDS` is set."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        seconds: int = settings.MAINTENANCE_SECONDS
        is_api = (
            request.path_info.startswith("/v1/")
            or request.path_info == "/mcp"
            or is_compatible_path(request.path_info)
        )
        if not seconds or not is_api:
            return self.get_response(request)
        error = ApiMaintenance({"retryAfterSeconds": seconds}, headers={"Retry-After": str(seconds)})
        return error_response(error, request)
