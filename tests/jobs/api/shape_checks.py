"""Checks of responses against contract and OpenAPI document, and jobs in every status."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from clients.models import ApiKey
from jobs import lifecycle
from jobs.enums import Status
from jobs.lifecycle import CANCELLED, Outcome
from jobs.models import Job
from simservice.api.openapi import document
from tests.dashboard.summaries import make_completed_job, make_failed_job
from tests.factories import make_job, make_running_job
from tests.jobs.api import contract, error_schemas, schemas

PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


def whole(answer: Any) -> Any:
    """Return a response's complete body."""
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    assert answer.headers["Content-Type"] == "application/json"
    return json.loads(content)


def documented(answer: Any) -> tuple[str, Any]:
    """Return the operation of a response, and the document's schema for its status."""
    path = "/" + PARAMETER.sub(r"{\1}", answer.resolver_match.route)
    operation = document()["paths"][path].get(answer.wsgi_request.method.lower())
    if operation is None:
        assert answer.status_code == 405
        return "", {"$ref": "#/components/schemas/Error"}
    told = operation["responses"][str(answer.status_code)]["content"]["application/json"]
    return operation["operationId"], told["schema"]


def check_document(value: Any, schema: Any) -> None:
    resolved = {**schema, "components": document()["components"]}
    Draft202012Validator(resolved, format_checker=FormatChecker()).validate(value)


def right(answer: Any, variant: str) -> Any:
    """Check a response against contract and document; return its body."""
    body = whole(answer)
    operation, schema = documented(answer)
    check_document(body, schema)
    if answer.status_code == 200:
        schemas.check(body, contract.answers(variant)[operation])
    else:
        schemas.check(body, error_schemas.error(answer.status_code, body["code"]))
    return body


@pytest.fixture
def account(key: tuple[ApiKey, str]) -> Any:
    return key[0].client.account


def starting(**fields: Any) -> Job:
    """Make a job in the status `starting`."""
    job = make_job(**fields)
    assert lifecycle.start_attempt(job, worker="worker-1")
    return job


def queued(**fields: Any) -> Job:
    job = make_job(**fields)
    assert lifecycle.mark_queued(job)
    return job


def timed_out(**fields: Any) -> Job:
    job = make_running_job(**fields)
    ended = Outcome(status=Status.TIMED_OUT, error_code="execution_timeout", reason="It took too long.")
    assert lifecycle.finish(job, ended)
    return job


def cancelled(**fields: Any) -> Job:
    job = make_job(**fields)
    assert lifecycle.finish(job, CANCELLED)
    return job


STATES: dict[str, Callable[..., Job]] = {
    "pending": make_job,
    "queued": queued,
    "starting": starting,
    "running": make_running_job,
    "completed": make_completed_job,
    "failed": make_failed_job,
    "timed_out": timed_out,
    "cancelled": cancelled,
}


# A file, and a response whose fields name the unavailable parts.
NOT_JSON = {"downloadArtifact", "getReadiness"}
