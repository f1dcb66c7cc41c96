"""Every address of the service, and what is answered where there is none."""

import sys

from django.contrib import admin
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path, register_converter

from simservice.api.errors import (
    DatabaseUnavailable,
    InternalError,
    NotFound,
    RequestTooLarge,
)
from simservice.api.exception_handler import malformed
from simservice.api.views import openapi_document
from simservice.database import DATABASE_UNAVAILABLE
from simservice.ids import IdConverter, TokenConverter
from simservice.metrics import metrics
from simservice.web import health, operators, slashes
from simservice.web.error_pages import error_answer

register_converter(TokenConverter, "token")
register_converter(IdConverter, "id")
operators.guard(admin.site)

urlpatterns = [
    path("", include("jobs.api.urls")),
    path("", include("billing.urls")),
    path("", include("jobs.urls")),
    path("", include("dashboard.urls")),
    path("admin/", admin.site.urls),
    path("v1/openapi.json", openapi_document, name="openapi"),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics),
]


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that Django refused to look at."""
    return error_answer(request, RequestTooLarge() if isinstance(exception, RequestDataTooBig) else malformed())


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    """Answer somebody who may see a page but not do what they tried."""
    return render(request, "forbidden.html", status=403)


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    """Answer an unknown address; redirect if a page differs from it only by a trailing slash."""
    return slashes.redirect_of(request) or error_answer(request, NotFound())


def handler500(request: HttpRequest) -> HttpResponse:
    """Answer when a view outside the API failed."""
    is_database = isinstance(sys.exception(), DATABASE_UNAVAILABLE)
    return error_answer(request, DatabaseUnavailable() if is_database else InternalError())
