"""Submissions that ask for a webhook (`docs/reference/webhooks.md#the-request`)."""

from typing import Any

import pytest

from clients.accounts import default_client
from clients.audit import SYSTEM
from clients.keys import create_key
from clients.models import Client
from jobs.models import Job
from tests.conftest import Api
from tests.factories import PROFILE
from tests.jobs.api.bodies import body_with
from webhooks import endpoints

pytestmark = pytest.mark.django_db

BODY = body_with("webhook.events", ["job.terminal"])
REFUSED = (400, "webhook_not_configured")


@pytest.fixture
def caller(configured: tuple[Client, str]) -> Api:
    """The API with a key of the client that has a webhook."""
    return Api(create_key(configured[0], by=SYSTEM)[1])


def error_of(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def test_a_json_submission_can_ask_for_a_webhook(caller: Api) -> None:
    assert caller.post("jobs", BODY).status_code == 200
    assert Job.objects.get().wants_webhook


def test_a_plain_text_submission_can_ask_for_a_webhook(caller: Api) -> None:
    response = caller.post_text("channel=latest&webhookEvents=job.terminal", PROFILE)
    assert response.status_code == 200
    assert Job.objects.get().wants_webhook


def test_a_submission_does_not_ask_by_default(caller: Api) -> None:
    assert caller.post_text("channel=latest", PROFILE).status_code == 200
    assert not Job.objects.get().wants_webhook


def test_each_client_needs_its_own_webhook(configured: tuple[Client, str]) -> None:
    other = Api(create_key(default_client(configured[0].account), by=SYSTEM)[1])
    assert error_of(other.post("jobs", BODY)) == REFUSED


def test_a_disabled_webhook_is_not_configured(caller: Api, configured: tuple[Client, str]) -> None:
    endpoints.disable(configured[0], by=SYSTEM)
    assert error_of(caller.post("jobs", BODY)) == REFUSED
    assert not Job.objects.exists()


def test_a_replay_works_after_the_webhook_is_disabled(caller: Api, configured: tuple[Client, str]) -> None:
    headers = {"idempotency-key": "one"}
    first = caller.post("jobs", BODY, headers=headers)
    endpoints.disable(configured[0], by=SYSTEM)
    again = caller.post("jobs", BODY, headers=headers)
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["X-Idempotent-Replay"] == "true"
    assert Job.objects.count() == 1
