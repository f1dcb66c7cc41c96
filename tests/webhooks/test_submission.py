"""Submissions that ask for a webhook (specification, Events and Errors)."""

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
def caller(hooked: tuple[Client, str]) -> Api:
    """The API as the client with the webhook sees it."""
    return Api(create_key(hooked[0], by=SYSTEM)[1])


def refusal(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_json_asks_for_a_webhook(caller: Api) -> None:
    assert caller.post("jobs", BODY).status_code == 200
    assert Job.objects.get().wants_webhook


def test_plain_text_asks_for_a_webhook(caller: Api) -> None:
    answer = caller.post_text("channel=latest&webhookEvents=job.terminal", PROFILE)
    assert answer.status_code == 200
    assert Job.objects.get().wants_webhook


def test_who_does_not_ask_gets_none(caller: Api) -> None:
    assert caller.post_text("channel=latest", PROFILE).status_code == 200
    assert not Job.objects.get().wants_webhook


def test_another_client_of_the_account_needs_its_own(hooked: tuple[Client, str]) -> None:
    other = Api(create_key(default_client(hooked[0].account), by=SYSTEM)[1])
    assert refusal(other.post("jobs", BODY)) == REFUSED


def test_a_disabled_webhook_is_none(caller: Api, hooked: tuple[Client, str]) -> None:
    endpoints.disable(hooked[0], by=SYSTEM)
    assert refusal(caller.post("jobs", BODY)) == REFUSED
    assert not Job.objects.exists()


def test_a_replay_is_answered_whatever_became_of_the_webhook(caller: Api, hooked: tuple[Client, str]) -> None:
    headers = {"idempotency-key": "one"}
    first = caller.post("jobs", BODY, headers=headers)
    endpoints.disable(hooked[0], by=SYSTEM)
    again = caller.post("jobs", BODY, headers=headers)
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["X-Idempotent-Replay"] == "true"
    assert Job.objects.count() == 1
