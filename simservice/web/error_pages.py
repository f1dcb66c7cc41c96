"""Error responses outside the API's views: JSON for API paths, an HTML page for others."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from simservice.api.errors import ApiError, error_response

API_PREFIXES = ("/v1/", "/artifacts/", "/manifests/")


def render_error(request: HttpRequest, error: ApiError) -> HttpResponse:
    """Return the response to an error: JSON or an HTML page, depending on the request's path."""
    if is_api_path(request.path):
        return error_response(error, request)
    response = render(request, "error.html", {"error": error}, status=error.status)
    for name, value in error.headers.items():
        response[name] = value
    return response


def is_api_path(path: str) -> bool:
    """Return whether a path belongs to the API, artifacts or manifests, whose clients are programs."""
    path = "/" + path.lstrip("/")
    return path.startswith(API_PREFIXES) or path == "/v1"
