"""Error responses outside the API's views: the error envelope for programs, an HTML page for users."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from simservice.api.errors import ApiError, error_response

FOR_PROGRAMS = ("/v1/", "/artifacts/", "/manifests/")


def error_answer(request: HttpRequest, error: ApiError) -> HttpResponse:
    """Return the response to an error, in the format that fits the request's path."""
    if is_for_programs(request.path):
        return error_response(error, request)
    response = render(request, "error.html", {"error": error}, status=error.status)
    for name, value in error.headers.items():
        response[name] = value
    return response


def is_for_programs(path: str) -> bool:
    """Return whether programs, not users, request this path."""
    path = "/" + path.lstrip("/")
    return path.startswith(FOR_PROGRAMS) or path == "/v1"
