"""What the service counts about itself, for Prometheus. Each process keeps its own numbers."""

import time
from collections.abc import Callable
from http import HTTPMethod
from secrets import compare_digest

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from simservice.api.errors import NotFound, error_response
from simservice.api.methods import read_only

REGISTRY = CollectorRegistry()

REQUEST_SECONDS = Histogram(
    "simservice_request_seconds",
    "Seconds until a request was answered; the count is the number of requests.",
    ["method", "route", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)
REDIS_FAILURES = Counter(
    "simservice_redis_failures_total", "Questions that Redis did not answer.", registry=REGISTRY
)
RATE_LIMITED = Counter(
    "simservice_rate_limited_total", "Requests refused by a rate limit.", ["kind"], registry=REGISTRY
)


def gauge(name: str, description: str, value: float) -> GaugeMetricFamily:
    """Return the gauge `simservice_<name>` with one value."""
    return GaugeMetricFamily(f"simservice_{name}", description, value=value)


class MetricsMiddleware:
    """Counts every request and how long it took."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        begun = time.perf_counter()
        response = self.get_response(request)
        labels = (method_of(request), route_of(request), str(response.status_code))
        REQUEST_SECONDS.labels(*labels).observe(time.perf_counter() - begun)
        return response


def method_of(request: HttpRequest) -> str:
    """Return the request's method; callers may make up methods, but no metrics."""
    return request.method if request.method and request.method in HTTPMethod.__members__ else "other"


def route_of(request: HttpRequest) -> str:
    """Return the pattern that a request's path matched, never the path itself."""
    return request.resolver_match.route if request.resolver_match else "none"


@read_only
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer Prometheus when it sends `METRICS_TOKEN`; for everybody else there is nothing here."""
    sent = request.headers.get("Authorization", "").encode()
    wanted = f"Bearer {settings.METRICS_TOKEN}".encode()
    if not settings.METRICS_TOKEN or not compare_digest(sent, wanted):
        return error_response(NotFound(), request)
    return HttpResponse(generate_latest(REGISTRY), content_type=CONTENT_TYPE_PLAIN_0_0_4)
