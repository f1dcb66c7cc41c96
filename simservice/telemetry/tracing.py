"""Traces of requests and jobs: `docs/how-to/observe.md#traces`.

Without OTEL_EXPORTER_OTLP_ENDPOINT, nothing is recorded, and OpenTelemetry is not even imported. Attributes are
ids, numbers and constants. They must not contain a text that a user wrote.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from simservice.telemetry.metrics import WANTED, method_of, route_of

Kind = Literal["INTERNAL", "SERVER", "CLIENT", "CONSUMER"]
Value = str | int | float | bool
# Orchestrators and Prometheus request these every few seconds.
INTERNAL_PATHS = ("/healthz", "/readyz", "/metrics")
# The form of an API key. Whether it is valid is not known yet.
WITH_KEY = re.compile(r"bearer +sk_[0-9A-Za-z]{46}\s*", re.IGNORECASE)


def is_on() -> bool:
    """Return whether traces are recorded."""
    return bool(settings.OTEL_EXPORTER_OTLP_ENDPOINT)


@contextmanager
def span(name: str, *, kind: Kind = "INTERNAL", parent: str | None = None, **attributes: Value) -> Iterator[None]:
    """Record how long a block takes, as a part of the span around it.

    `parent` is a W3C `traceparent`, for a block whose request was elsewhere. An empty or invalid one starts a
    trace.
    """
    if not is_on():
        yield
        return
    from simservice.telemetry import open_telemetry

    with open_telemetry.span(name, kind=kind, parent=parent, attributes=attributes):
        yield


def note(**attributes: Value | None) -> None:
    """Add attributes to the span around the call; None is left out."""
    if is_on():
        from simservice.telemetry import open_telemetry

        open_telemetry.note({name: value for name, value in attributes.items() if value is not None})


def current_parent() -> str:
    """Return the W3C `traceparent` of the span around the call, an empty text without one."""
    if not is_on():
        return ""
    from simservice.telemetry import open_telemetry

    return open_telemetry.current_parent()


class TracingMiddleware:
    """Records a span for each request, as a part of the client's trace if an API request sends a `traceparent`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info in INTERNAL_PATHS or not is_on():
            return self.get_response(request)
        from simservice.telemetry import open_telemetry

        # Strangers must not choose which requests are recorded.
        is_callers = request.path_info.startswith("/v1/") and WITH_KEY.fullmatch(
            request.headers.get("Authorization", "")
        )
        parent = request.headers.get("traceparent", "") if is_callers else ""
        with open_telemetry.span(
            "request",
            kind="SERVER",
            parent=parent,
            attributes={"request_id": request.META["REQUEST_ID"]},
            is_dropped=lambda: WANTED in request.META,
        ):
            response = self.get_response(request)
            note(method=method_of(request), route=route_of(request), status=response.status_code)
        return response
