"""Error responses outside the API's views: the envelope for programs, an HTML page for people.

A page whose address only has a trailing slash too many, or lacks one, is a redirect instead of an error.
"""

import json
import re
from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import Resolver404, resolve
from django.utils.encoding import escape_uri_path

from simservice.api.addresses import is_compatible_path
from simservice.api.errors import (
    ApiError,
    InternalError,
    MethodNotAllowed,
    NotFound,
    QueueUnavailable,
    RateLimitExceeded,
    RequestTooLarge,
    ValidationFailed,
    envelope,
    error_response,
)

API_PREFIXES = ("/v1/", "/artifacts/", "/manifests/")
# Report data under a share link (`jobs/api/report_data.py`)
REPORT_DATA = re.compile(r"/share/[^/]+/(?:data|input|output|report)\.[^/]+")
JSON = "application/json"
FOR_BROWSERS = "Only a logged-in browser can send this request. API addresses begin with /v1/."
INVALID = "The request is invalid."


def render_error(request: HttpRequest, error: ApiError) -> HttpResponse:
    """Return the response to an error: JSON or an HTML page, depending on who asks.

    Pages about outages and floods do not read the database; the other ones keep the bar of the user.
    """
    if wants_json(request):
        return error_response(error, request)
    is_plain = error.status == HTTPStatus.TOO_MANY_REQUESTS or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    context = {"error": error, "layout": "plain_page.html" if is_plain else "open_page.html"}
    response = render(request, "error.html", context, status=error.status)
    for name, value in error.headers.items():
        response[name] = value
    return response


def is_api_path(path: str) -> bool:
    """Return whether a path belongs to the API, MCP, artifacts, manifests or report data, read by programs."""
    path = "/" + path.lstrip("/")
    is_api = path.startswith(API_PREFIXES) or path in ("/v1", "/mcp") or REPORT_DATA.fullmatch(path)
    return bool(is_api) or is_compatible_path(path)


def wants_json(request: HttpRequest) -> bool:
    """Return whether errors are JSON: on API paths, with a key, and if the client prefers JSON to HTML."""
    sent = request.headers.get("Authorization", "")
    # A proxy can protect all pages with Basic authentication, which is no key.
    if is_api_path(request.path_info) or (sent and not sent.startswith("Basic ")):
        return True
    for accepted in request.accepted_types:
        kind = f"{accepted.main_type}/{accepted.sub_type}".lower()
        if kind in ("*/*", "text/*", "text/html", "application/xhtml+xml"):
            return False
        if kind in (JSON, "application/*", "text/json") or kind.endswith("+json"):
            return True
    return False


class EnvelopeMiddleware:
    """Replaces error pages with the envelope for clients that want JSON."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code < 400 or not isinstance(response, HttpResponse) or not wants_json(request):
            return response
        content_type = response.headers.get("Content-Type", "")
        if not content_type.startswith(JSON):
            body = envelope(_error_of(response), request.META["REQUEST_ID"])
            response.content = json.dumps(body).encode()
            response.headers["Content-Type"] = JSON
            response.headers.pop("Content-Length", None)
        return response


def _error_of(response: HttpResponse) -> ApiError:
    """Return the error that a response in another format stands for. Its code is the closest one."""
    status = response.status_code
    if status == 503:
        message = response.text.strip() if response.headers["Content-Type"].startswith("text/plain") else None
        return QueueUnavailable({"reason": "busy", "queueHealth": "ok"}, message=message)
    if status >= 500:
        return InternalError()
    if status == 429:
        return RateLimitExceeded({"scope": "address", "limit": "public"})
    others = {error.status: error for error in (NotFound, MethodNotAllowed, RequestTooLarge)}
    if status in others:
        return others[status]()
    return ValidationFailed([{"path": "", "message": FOR_BROWSERS if status == 403 else INVALID}])


def redirect_for(request: HttpRequest) -> HttpResponsePermanentRedirect | None:
    """Return a redirect to the page with or without the trailing slash, None if there is no such page.

    Browsers repeat the method and the body (RFC 9110, 15.4.9). API paths are not redirected,
    because some clients would drop the key or the body.
    """
    path = request.path_info
    other = path.removesuffix("/") if path.endswith("/") else f"{path}/"
    if is_api_path(path) or _is_page(path) or not _is_page(other):
        return None
    address = escape_uri_path(other)
    query = request.META.get("QUERY_STRING", "")
    return HttpResponsePermanentRedirect(f"{address}?{query}" if query else address, preserve_request=True)


def _is_page(path: str) -> bool:
    """Return whether a page has this path. Only the admin's catch-all route has no name."""
    try:
        return resolve(path).url_name is not None
    except Resolver404:
        return False
