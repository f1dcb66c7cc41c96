"""Traces of jobs, from the client's request to the webhook, sent by the processes of the Procfile."""

import time
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.end_to_end.test_webhooks import configure
from tests.http_receiver import HttpReceiver
from tests.stack import LONG, QUICK, Stack
from tests.webhooks.receivers import Receiver

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(240)]

# What the client sends as `traceparent`, and the ids in it.
TRACE, CLIENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PROFILE = QUICK.replace("Quick", "Hemlig")


@dataclass
class Span:
    """A received span."""

    name: str
    trace: str
    span: str
    parent: str
    attributes: dict[str, Any] = field(default_factory=dict)


def spans_of(collector: HttpReceiver, trace: str) -> list[Span]:
    """Return the received spans of a trace."""
    return [
        Span(
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            {each.key.removeprefix("simservice."): value_of(each.value) for each in span.attributes},
        )
        for path, body in list(collector.bodies)
        if path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        if span.trace_id.hex() == trace
    ]


def value_of(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


def wait_for(collector: HttpReceiver, names: set[str], *, trace: str, attempt: int = 1) -> dict[str, Span]:
    """Wait until a trace has spans with these names. Return them by name, only those of one attempt."""
    deadline = time.monotonic() + 60
    while True:
        spans = [each for each in spans_of(collector, trace) if each.attributes.get("attempt", attempt) == attempt]
        found = {each.name: each for each in spans}
        if names <= set(found):
            return found
        assert time.monotonic() < deadline, f"only {sorted(found)}"
        time.sleep(0.2)


def submit(stack: Stack, key: str, text: str, *, trace: str, is_notified: bool = False) -> str:
    """Submit a job as a part of the client's trace, and return its id."""
    body = {
        "build": {"channel": "latest"},
        "profile": {"text": text},
        "metadata": {"title": "Hemlig title"},
        **({"webhook": {"events": ["job.terminal"]}} if is_notified else {}),
    }
    headers = {"Authorization": f"Bearer {key}", "traceparent": f"00-{trace}-{CLIENT}-01"}
    response = requests.post(f"{stack.ready['url']}/v1/sim/jobs", json=body, headers=headers, timeout=10)
    return str(response.json()["id"])


def test_a_trace_leads_from_the_request_to_the_webhook(
    stack: Stack, receiver: Receiver, collector: HttpReceiver
) -> None:
    key, secret = configure(stack, receiver, name="traced")
    job_id = submit(stack, key, PROFILE, trace=TRACE, is_notified=True)
    spans = wait_for(collector, {"request", "attempt", "run", "store", "end", "webhook"}, trace=TRACE)
    parents = {name: each.parent for name, each in spans.items()}
    request, attempt = spans["request"].span, spans["attempt"].span
    assert parents == {
        "request": CLIENT,
        "attempt": request,
        "run": attempt,
        "store": attempt,
        "end": attempt,
        "webhook": request,
    }
    assert spans["attempt"].attributes["job_id"] == int(job_id)
    assert (spans["request"].attributes["route"], spans["request"].attributes["status"]) == ("v1/sim/jobs", 200)
    assert (spans["end"].attributes["outcome"], spans["run"].attributes["exit_code"]) == ("completed", "0")
    assert spans["webhook"].attributes["status"] == 200
    require_no_secrets(collector, key, secret, receiver.url())


def require_no_secrets(collector: HttpReceiver, *secrets: str) -> None:
    """Assert that no span contains a secret or a part of the profile."""
    sent = b"".join(body for _, body in collector.bodies)
    assert [text for text in (*secrets, "Hemlig", "iterations") if text.encode() in sent] == []


def test_a_second_attempt_belongs_to_the_same_trace(stack: Stack, collector: HttpReceiver) -> None:
    trace = TRACE[::-1]
    job_id = submit(stack, stack.ready["apiKey"], LONG, trace=trace)
    stack.wait(job_id, lambda job: job["status"] == "running", seconds=30)
    stack.worker().kill()
    stack.wait(job_id, lambda job: job["status"] == "running" and job["retried"], seconds=60)
    stack.call("POST", f"jobs/{job_id}/cancel")
    spans = wait_for(collector, {"request", "attempt", "end"}, trace=trace, attempt=2)
    assert spans["attempt"].parent == spans["request"].span
    assert spans["end"].attributes["outcome"] == "user_cancelled"
