"""Metrics for Prometheus.

Each process counts requests for itself, in `REGISTRY`. What the database and Redis know about all processes is in
`SERVICE`, which every process reports alike.
"""

import os
import time
from collections.abc import Callable
from http import HTTPMethod

from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

REGISTRY = CollectorRegistry()
SERVICE = CollectorRegistry()
# The variable with the folder in which the workers of one web server store their values, read by prometheus-client
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
# A key in `request.META`: the wait after which the request is handled again, and only then counted
WANTED = "simservice.wanted_wait"

REQUEST_SECONDS = Histogram(
    "simservice_request_seconds",
    "Duration of requests in seconds. The count is the number of requests.",
    ["method", "route", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)
THREAD_WAIT_SECONDS = Histogram(
    "simservice_thread_wait_seconds",
    "Seconds that complete requests waited for a thread of the web server.",
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5),
    registry=REGISTRY,
)
RATE_LIMITED = Counter(
    "simservice_rate_limited_total", "Requests rejected by a rate limit.", ["kind"], registry=REGISTRY
)
REJECTED = Counter(
    "simservice_requests_rejected_total",
    "Requests and connections that the web server refused or ended.",
    ["reason"],
    registry=REGISTRY,
)
for _reason in (
    "validation_failed",
    "request_too_large",
    "internal_error",
    "too_many_connections",
    "too_many_bytes",
    "too_many_downloads",
):
    # Prometheus does not notice the first increment of a new series.
    REJECTED.labels(_reason)
# Memory, CPU seconds and open files
ProcessCollector(registry=REGISTRY)


def exposition() -> bytes:
    """Return all metrics in the text format."""
    return generate_latest(_processes()) + generate_latest(SERVICE)


def _processes() -> CollectorRegistry:
    """Return the metrics of this process. If the web server has several, they are summed."""
    if FOLDER not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library is partly typed
    return registry


def gauge(name: str, description: str, value: float) -> GaugeMetricFamily:
    """Return the gauge `simservice_<name>` with one value."""
    return GaugeMetricFamily(f"simservice_{name}", description, value=value)


class MetricsMiddleware:
    """Records the duration of every request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = self.get_response(request)
        if WANTED not in request.META:
            labels = (method_of(request), route_of(request), str(response.status_code))
            REQUEST_SECONDS.labels(*labels).observe(time.perf_counter() - started)
        return response


def method_of(request: HttpRequest) -> str:
    """Return the request's method, or `other` for unknown ones, so that callers cannot create metrics."""
    return request.method if request.method and request.method in HTTPMethod.__members__ else "other"


def route_of(request: HttpRequest) -> str:
    """Return the URL pattern that the request's path matches, never the path itself."""
    return request.resolver_match.route if request.resolver_match else "none"
