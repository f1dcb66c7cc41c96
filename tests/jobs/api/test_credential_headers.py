"""Game credentials in the headers of requests with a JSON body."""

from typing import Any

import pytest

from jobs.artifacts import credentials
from jobs.artifacts.credentials import GameCredentials
from jobs.models import Job
from tests.conftest import Api
from tests.jobs.api.bodies import BODY, only_in

pytestmark = only_in("C")

ID, SECRET = "X-Bnet-Client-Id", "X-Bnet-Client-Secret"
PAIR = {"bnetClientId": "an-id", "bnetClientSecret": "a-secret"}
PATHS = ["jobs", "jobs/validate"]


def issues(response: Any) -> dict[str, str]:
    assert (response.status_code, response.json()["code"]) == (400, "validation_failed")
    return {issue["path"]: issue["message"] for issue in response.json()["meta"]["issues"]}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("sent", "missing"), [(ID, SECRET), (SECRET, ID)])
def test_half_a_pair_in_the_headers_is_refused(api: Api, path: str, sent: str, missing: str) -> None:
    found = issues(api.post(path, BODY, headers={sent: "x"}))
    assert list(found) == [missing]
    assert "together, or neither" in found[missing]
    assert not Job.objects.exists()


def test_a_pair_in_the_headers_is_used(api: Api) -> None:
    job_id = api.post("jobs", BODY, headers={ID: "a" * 32, SECRET: "b" * 32}).json()["id"]
    assert Job.objects.get(pk=job_id).has_credentials
    pair = GameCredentials(client_id="a" * 32, client_secret="b" * 32)
    assert credentials.fetch(int(job_id), seconds=60) == pair


@pytest.mark.parametrize("headers", [{ID: "x", SECRET: "y"}, {ID: "x"}])
def test_credentials_in_the_body_and_in_headers_are_refused(api: Api, headers: dict[str, str]) -> None:
    found = issues(api.post("jobs", BODY | {"credentials": PAIR}, headers=headers))
    assert list(found) == list(headers)
    assert "not both" in found[ID]


@pytest.mark.parametrize("value", ["", "two words", "x" * 33])
def test_a_value_that_the_body_must_not_have_is_refused(api: Api, value: str) -> None:
    assert issues(api.post("jobs", BODY, headers={ID: value, SECRET: "y" * 32}))


def test_batches_take_no_credentials_in_headers(api: Api) -> None:
    found = issues(api.post("jobs/batch", {"jobs": [BODY]}, headers={ID: "x", SECRET: "y"}))
    assert list(found) == [ID, SECRET]
    assert "each submission" in found[ID]
    assert not Job.objects.exists()


def test_a_body_that_is_no_object_is_named_first(api: Api) -> None:
    assert issues(api.post("jobs", "[]", headers={ID: "x"})) == {"": "Must be an object."}
