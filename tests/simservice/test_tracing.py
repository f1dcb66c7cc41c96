"""Traces within one process. `tests/end_to_end/test_traces.py` follows a job through all processes."""

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from jobs.models import Job
from simservice.telemetry import known_errors, open_telemetry, tracing
from simservice.telemetry.metrics import WANTED
from simservice.telemetry.tracing import TracingMiddleware
from tests.conftest import Api
from tests.http_receiver import http_receiver
from tests.jobs.api.bodies import BODY
from tests.tracing import PARENT, recorded_spans


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """The spans of the test."""
    with recorded_spans() as recorded:
        yield recorded


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    (span,) = spans.get_finished_spans()
    return span


def test_an_exception_is_recorded_without_its_message(spans: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="mage"), tracing.span("run", parent=PARENT, stage=1):
        raise ValueError("mage=Hemlig")
    span = only(spans)
    assert (span.status.status_code, span.status.description, span.events) == (StatusCode.ERROR, None, ())
    assert span.attributes == {"simservice.stage": 1, "error.type": "ValueError"}


@pytest.mark.parametrize("sent", ["", "nonsense", PARENT.replace("0af", "xyz") + "-" * 5000, "00-0-0-00"])
def test_an_invalid_parent_starts_a_trace(spans: InMemorySpanExporter, sent: str) -> None:
    with tracing.span("request", parent=sent):
        assert len(tracing.current_parent()) == 55
    assert only(spans).parent is None


def test_a_client_can_ask_for_no_trace(spans: InMemorySpanExporter) -> None:
    with tracing.span("request", parent=PARENT[:-1] + "0"):
        assert tracing.current_parent().endswith("-00")
    assert spans.get_finished_spans() == ()


def respond(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=404)


def test_a_requests_span_has_no_path(spans: InMemorySpanExporter) -> None:
    request = RequestFactory().get("/reset/hemlig?key=hemlig")
    request.META["REQUEST_ID"] = "req_1"
    TracingMiddleware(respond)(request)
    assert only(spans).attributes == {
        "simservice.request_id": "req_1",
        "simservice.method": "GET",
        "simservice.route": "none",
        "simservice.status": 404,
    }


@pytest.mark.parametrize(
    ("path", "authorization", "is_child"),
    [
        ("/v1/sim/jobs", f"Bearer sk_{'a' * 46}", True),
        ("/v1/sim/jobs", "Bearer sk_a", False),
        ("/v1/sim/jobs", "", False),
        ("/login", f"Bearer sk_{'a' * 46}", False),
    ],
)
def test_only_api_clients_choose_the_trace(
    spans: InMemorySpanExporter, path: str, authorization: str, *, is_child: bool
) -> None:
    headers = {"traceparent": PARENT, "authorization": authorization}
    TracingMiddleware(respond)(RequestFactory().get(path, headers=headers, REQUEST_ID="req_1"))
    assert (only(spans).parent is not None) is is_child


def wait(request: HttpRequest) -> HttpResponse:
    request.META[WANTED] = "a wait"
    return HttpResponse()


def test_a_dropped_answer_has_no_span(spans: InMemorySpanExporter) -> None:
    request = RequestFactory().get("/", REQUEST_ID="req_1")
    TracingMiddleware(wait)(request)
    assert spans.get_finished_spans() == ()


def test_an_unknown_method_is_not_recorded(spans: InMemorySpanExporter) -> None:
    TracingMiddleware(respond)(RequestFactory().generic("HEMLIG", "/", REQUEST_ID="req_1"))
    assert (only(spans).attributes or {})["simservice.method"] == "other"


def test_health_checks_are_not_traced(spans: InMemorySpanExporter) -> None:
    TracingMiddleware(respond)(RequestFactory().get("/healthz"))
    assert spans.get_finished_spans() == ()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has logged nothing yet and has no tracer."""
    monkeypatch.setattr(known_errors, "_logged", {})
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]
    library = logging.getLogger("opentelemetry")
    library.handlers, library.propagate = [], True


@pytest.mark.usefixtures("fresh")
def test_a_process_that_ends_sends_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        tracer: Any = open_telemetry._tracer.__wrapped__()
        for _ in range(1500):
            tracer.start_span("run").end()
        tracer.span_processor.shutdown()
    assert len(collector.bodies) == 1


@pytest.mark.usefixtures("fresh")
def test_a_missing_collector_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    open_telemetry.limit_log()
    for _ in range(3):
        logging.getLogger("opentelemetry.exporter").error("Failed to export span batch")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.django_db
def test_jobs_have_no_parent_without_traces(api: Api) -> None:
    assert api.post("jobs", BODY, headers={"traceparent": PARENT}).status_code == 200
    assert Job.objects.get().trace_parent == ""
