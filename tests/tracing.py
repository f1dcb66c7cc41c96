"""Spans that a test's own process records."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.test import override_settings
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from simservice.telemetry import open_telemetry

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@contextmanager
def recorded_spans() -> Iterator[InMemorySpanExporter]:
    """Record the spans of a block, which are not sent."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with (
        override_settings(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1"),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(open_telemetry, "_tracer", lambda: provider.get_tracer("test"))
        yield exporter
    provider.shutdown()
