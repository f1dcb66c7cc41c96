"""Webhook bodies match the handwritten contract and the OpenAPI document."""

import json
from collections.abc import Callable

import pytest

from clients.audit import SYSTEM
from jobs.lifecycle import cancellation, job_moves, webhook_events
from jobs.lifecycle.job_moves import CANCELLED
from jobs.models import Job
from simservice.api.openapi import document
from tests.dashboard.summaries import make_completed_job, make_failed_job
from tests.factories import make_key
from tests.jobs.api.contract.operations import webhook_body
from tests.jobs.api.contract.types import check
from tests.jobs.api.job_states import cancelled, starting, timed_out
from tests.jobs.api.response_checks import check_document
from webhooks import endpoints
from webhooks.models import Event


@pytest.mark.django_db
@pytest.mark.parametrize("make", [make_completed_job, make_failed_job, timed_out, cancelled])
def test_the_webhook_of_each_terminal_status(make: Callable[..., Job], variant: str) -> None:
    make(wants_webhook=True)
    check_webhook(variant)


@pytest.mark.django_db
def test_the_webhook_of_a_test_event(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "require_enabled", lambda _: None)
    webhook_events.send_test_event(make_key()[0].client)
    check_webhook(variant)


@pytest.mark.django_db
def test_the_webhook_of_a_job_cancelled_while_starting(variant: str) -> None:
    job = starting(wants_webhook=True)
    cancellation.cancel(job, by=SYSTEM)
    assert job_moves.finish(job, CANCELLED)
    check_webhook(variant)


def check_webhook(variant: str) -> None:
    """Check the only event in the database."""
    body = json.loads(bytes(Event.objects.get().body))
    check(body, webhook_body(variant))
    content = document()["webhooks"]["job.terminal"]["post"]["requestBody"]["content"]["application/json"]
    check_document(body, content["schema"])
