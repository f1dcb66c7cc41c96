"""A request id on every response, and the error envelope for what never reaches a view."""

import secrets
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


def new_request_id() -> str:
    """Return `req_` and 32 hexadecimal digits (contract, section 1)."""
    return f"req_{secrets.token_hex(16)}"


class RequestIdMiddleware:
    """Name each request before anything else sees it; an id sent by the caller is not trusted."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.META["REQUEST_ID"] = new_request_id()
        response = self.get_response(request)
        response["X-Request-Id"] = request.META["REQUEST_ID"]
        return response
