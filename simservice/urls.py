"""URLs of the service, and its error handlers."""

import sys

from django.contrib import admin
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path

from simservice.admin import access, filters
from simservice.api.addresses import api_url
from simservice.api.errors import (
    DatabaseUnavailable,
    InternalError,
    NotFound,
    RequestTooLarge,
)
from simservice.api.exception_handler import malformed
from simservice.api.views import openapi_address, openapi_document
from simservice.postgresql.connections import DATABASE_UNAVAILABLE
from simservice.web import error_pages, health
from simservice.web.error_pages import is_api_path, render_error, wants_json
from simservice.web.health import metrics
from simservice.web.static_files import another_version

admin.autodiscover()
access.require_two_factor(admin.site)
filters.check_filters(admin.site)

urlpatterns = [
    path("", include("jobs.api.urls")),
    path("", include("jobs.mcp.urls")),
    path("", include("billing.urls")),
    path("", include("dashboard.urls")),
    path("admin/", include("dashboard.console.urls")),
    path("admin/", admin.site.urls),
    path("v1/openapi.json", openapi_document, name="openapi"),
    path("openapi.json", openapi_address),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics),
    path("static/<path:name>", another_version),
]


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Respond to a request that Django rejects as malformed or too large."""
    return render_error(
        request, RequestTooLarge() if isinstance(exception, RequestDataTooBig) else malformed(exception)
    )


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    """Respond to a user who lacks a permission."""
    return render(request, "forbidden.html", status=403)


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    """Respond to an unknown path. Redirect if it differs from a page's path only by a trailing slash."""
    error = NotFound()
    if wants_json(request) and not is_api_path(request.path_info):
        error.message = f"There is nothing at this address. API addresses begin with {api_url(request)}/."
    return error_pages.redirect_for(request) or render_error(request, error)


def handler500(request: HttpRequest) -> HttpResponse:
    """Respond after a view outside the API raised an error."""
    is_database = isinstance(sys.exception(), DATABASE_UNAVAILABLE)
    return render_error(request, DatabaseUnavailable() if is_database else InternalError())
