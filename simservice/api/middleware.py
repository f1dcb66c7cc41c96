"""What every response carries, and the answer while the API is maintained."""

import secrets
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from simservice.api.errors import ApiMaintenance, error_response

RATE_LIMIT_HEADERS = "RATE_LIMIT_HEADERS"
"""Where a request carries what its response tells of the caller's rate limit."""


def new_request_id() -> str:
    """Return `req_` and 32 hexadecimal digits: `docs/reference/contract.md#request-ids`."""
    return f"req_{secrets.token_hex(16)}"


class RequestIdMiddleware:
    """Name each request before anything else sees it; an id sent by the caller is not trusted."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.META["REQUEST_ID"] = new_request_id()
        response = self.get_response(request)
        response["X-Request-Id"] = request.META["REQUEST_ID"]
        for name, value in request.META.get(RATE_LIMIT_HEADERS, {}).items():
            response[name] = value
        return response


class MaintenanceMiddleware:
    """Answers every API request with 503 while `MAINTENANCE_SECONDS` is set, whoever asks."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        seconds: int = settings.MAINTENANCE_SECONDS
        if not seconds or not request.path.startswith("/v1/"):
            return self.get_response(request)
        error = ApiMaintenance({"retryAfterSeconds": seconds}, headers={"Retry-After": str(seconds)})
        return error_response(error, request)
