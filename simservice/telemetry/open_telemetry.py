"""Spans of OpenTelemetry, sent with OTLP over HTTP. Import it only through `telemetry/tracing.py`."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from simservice.telemetry.known_errors import is_repeated
from simservice.telemetry.logs import log_ids

HEADER = "traceparent"
_propagator = TraceContextTextMapPropagator()


@cache
def _tracer() -> Tracer:
    """Return the tracer of this process, which sends its spans from a thread and at the end of the process."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    os.environ.setdefault("OTEL_SERVICE_NAME", "simservice")
    # A process that ends sends at most two batches: the current one, and the whole queue. If the collector does not
    # respond, each batch takes this many seconds.
    os.environ.setdefault("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    os.environ.setdefault(
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", os.environ.setdefault("OTEL_BSP_MAX_QUEUE_SIZE", "2048")
    )
    limit_log()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer("simservice")


class Limited(logging.Handler):
    """Passes a line to the other handlers once a minute, as a warning."""

    def emit(self, record: logging.LogRecord) -> None:
        if not is_repeated("opentelemetry"):
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            logging.getLogger().handle(record)


def limit_log() -> None:
    """Limit the lines of OpenTelemetry, which logs an error for each batch that the collector does not accept."""
    library = logging.getLogger("opentelemetry")
    library.propagate = False
    library.handlers = [Limited(logging.WARNING)]


@contextmanager
def span(
    name: str,
    *,
    kind: str,
    parent: str | None,
    attributes: Mapping[str, AttributeValue],
    is_dropped: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Record a block, unless `is_dropped` returns True after it.

    Of an exception, only the class is recorded, because the message can contain anything.
    """
    context = None if parent is None else _propagator.extract({HEADER: parent}, context=Context())
    with _tracer().start_as_current_span(
        name,
        context=context,
        kind=SpanKind[kind],
        attributes=_prefixed(attributes),
        record_exception=False,
        set_status_on_exception=False,
        end_on_exit=False,
    ) as recorded:
        try:
            with log_ids(trace_id=trace.format_trace_id(recorded.get_span_context().trace_id)):
                yield
        except BaseException as error:
            recorded.set_attribute("error.type", type(error).__qualname__)
            recorded.set_status(StatusCode.ERROR)
            raise
        finally:
            # A span that does not end is not sent.
            if not is_dropped():
                recorded.end()


def note(attributes: Mapping[str, AttributeValue]) -> None:
    """Add attributes to the current span."""
    trace.get_current_span().set_attributes(_prefixed(attributes))


def current_parent() -> str:
    """Return the `traceparent` of the current span."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get(HEADER, "")


def _prefixed(attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    return {f"simservice.{name}": value for name, value in attributes.items()}
