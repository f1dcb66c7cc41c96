"""The endpoint that Prometheus scrapes."""

from secrets import compare_digest

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from simservice.api.errors import NotFound, error_response
from simservice.api.methods import read_only
from simservice.telemetry.metrics import exposition


@read_only
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics to callers that send `METRICS_TOKEN`, else 404."""
    sent = request.headers.get("Authorization", "").encode()
    expected = f"Bearer {settings.METRICS_TOKEN}".encode()
    if not settings.METRICS_TOKEN or not compare_digest(sent, expected):
        return error_response(NotFound(), request)
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_PLAIN_0_0_4)
