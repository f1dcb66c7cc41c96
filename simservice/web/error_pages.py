"""Errors outside the API's views: the envelope for programs, a page for people."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from simservice.api.errors import ApiError, error_response

FOR_PROGRAMS = ("/v1/", "/artifacts/", "/manifests/")


def error_answer(request: HttpRequest, error: ApiError) -> HttpResponse:
    """Answer with an error in the format that fits the request's address."""
    if is_for_programs(request.path):
        return error_response(error, request)
    response = render(request, "error.html", {"error": error}, status=error.status)
    for name, value in error.headers.items():
        response[name] = value
    return response


def is_for_programs(path: str) -> bool:
    """Return whether an address is for programs, not for people."""
    path = "/" + path.lstrip("/")
    return path.startswith(FOR_PROGRAMS) or path == "/v1"
