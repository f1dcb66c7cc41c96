"""`RateLimit` and `RateLimit-Policy`: the fields of the IETF draft, beside `X-RateLimit-*`."""

import json
import re
import time
from typing import Any

import pytest
from django.test import Client as HttpClient
from limits import RateLimitItem, RateLimitItemPerMinute
from pytest_django import Settings

from clients import rate_limits
from clients.rate_limits import Counters
from tests.concurrency import at_once
from tests.conftest import Api
from tests.factories import make_account, make_key
from tests.jobs.api.bodies import BODY

# A List of Strings with parameters, whose values are Integers or Strings (RFC 9651)
PARAMETER = r';[a-z][a-z0-9_]*=(?:[0-9]{1,15}|"[ -!#-~]*")'
MEMBER = re.compile(rf'"([a-z_]+)"((?:{PARAMETER})*)(?:, ?|$)')


def parsed(header: str) -> dict[str, dict[str, int | str]]:
    """Return the members of a structured field: the parameters of each policy by its name."""
    found: dict[str, dict[str, int | str]] = {}
    position = 0
    while position < len(header):
        member = MEMBER.match(header, position)
        assert member, header[position:]
        assert member[1] not in found
        pairs = (part.split("=") for part in member[2].split(";")[1:])
        found[member[1]] = {name: json.loads(value) for name, value in pairs}
        position = member.end()
    return found


def policies(response: Any) -> dict[str, dict[str, int | str]]:
    return parsed(response.headers["RateLimit-Policy"])


def left(response: Any) -> dict[str, int | str]:
    """Return what is left of each limit."""
    states = parsed(response.headers["RateLimit"])
    assert states.keys() == policies(response).keys()
    assert all(1 <= int(state["t"]) <= 120 for state in states.values())
    return {name: state["r"] for name, state in states.items()}


def caller(**plan: Any) -> Api:
    """Return a caller with its own account."""
    return Api(make_key(make_account(**plan))[1])


@pytest.mark.django_db
def test_a_read_has_one_policy() -> None:
    response = caller(reads_per_minute=5).get("builds")
    assert response.headers["RateLimit-Policy"] == '"reads";q=5;w=60'
    assert response.headers["RateLimit"] == '"reads";r=4;t=60'


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "kinds"), [("jobs", ("submissions", "bytes")), ("jobs/validate", ("checks", "checked_bytes"))]
)
def test_a_body_is_counted_in_requests_and_in_bytes(path: str, kinds: tuple[str, str]) -> None:
    response = caller(submissions_per_minute=7, submission_bytes_per_minute=5_000).post(path, BODY)
    requests, size = kinds
    assert policies(response) == {
        requests: {"q": 7, "w": 60},
        size: {"q": 5_000, "qu": "content-bytes", "w": 60},
    }
    assert left(response) == {requests: 6, size: 5_000 - len(json.dumps(BODY))}
    assert response.headers["X-RateLimit-Remaining"] == "6"


@pytest.mark.django_db
def test_a_batch_shows_what_all_of_its_submissions_leave() -> None:
    response = caller(submissions_per_minute=7).post("jobs/batch", {"jobs": [BODY, BODY, BODY]})
    assert left(response)["submissions"] == 4


@pytest.mark.django_db
def test_a_refused_request_shows_the_limit_that_refused_it() -> None:
    api = caller(reads_per_minute=1, submissions_per_minute=1)
    answers = [api.get("builds"), api.get("builds"), api.post("jobs", "x"), api.post("jobs", "x")]
    assert [answer.status_code for answer in answers] == [200, 429, 400, 429]
    assert left(answers[1]) == {"reads": 0}
    # A request that is refused for its number does not spend its bytes.
    assert left(answers[3]) == {"submissions": 0}
    for answer, kind in ((answers[1], "reads"), (answers[3], "submissions")):
        assert parsed(answer.headers["RateLimit"])[kind]["t"] == int(answer.headers["Retry-After"])


@pytest.mark.django_db
def test_refused_bytes_show_what_is_left_and_when_the_body_fits() -> None:
    api = caller(submission_bytes_per_minute=1_000)
    assert left(api.post("jobs", "x" * 600))["bytes"] == 400
    refused = api.post("jobs", "x" * 600)
    assert (refused.status_code, left(refused)["bytes"]) == (429, 400)
    assert parsed(refused.headers["RateLimit"])["bytes"]["t"] == int(refused.headers["Retry-After"])


@pytest.mark.django_db
def test_the_limit_allows_more_after_t(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RateLimitItem, "get_expiry", lambda _: 1)
    api = caller(reads_per_minute=1)
    refused = [api.get("builds") for _ in range(2)][-1]
    assert (refused.status_code, policies(refused)["reads"]["w"]) == (429, 1)
    time.sleep(int(parsed(refused.headers["RateLimit"])["reads"]["t"]))
    assert api.get("builds").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_simultaneous_requests_see_their_own_counts() -> None:
    account = make_account(submissions_per_minute=30, submission_bytes_per_minute=24 * 100 + 99)
    secret = make_key(account)[1]
    answers: list[Any] = []
    at_once(30, lambda: answers.append(Api(secret).post("jobs", "x" * 100)))
    states = [left(answer) for answer in answers]
    assert sorted(int(state["submissions"]) for state in states) == list(range(30))
    accepted = [
        int(state["bytes"]) for state, answer in zip(states, answers, strict=True) if answer.status_code != 429
    ]
    assert sorted(accepted) == [99 + 100 * number for number in range(24)]
    refused = [state["bytes"] for state, answer in zip(states, answers, strict=True) if answer.status_code == 429]
    assert refused == [99] * 6


@pytest.mark.django_db
def test_requests_without_a_key_are_described_where_they_are_limited(settings: Settings) -> None:
    settings.PUBLIC_REQUESTS_PER_MINUTE = 1
    answers = [HttpClient().get("/manifests/" + "x" * 22) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [404, 429]
    assert [answer.headers["RateLimit-Policy"] for answer in answers] == ['"public";q=1;w=60'] * 2
    assert [left(answer)["public"] for answer in answers] == [0, 0]
    for path in ("/healthz", "/v1/openapi.json", "/v1/sim/builds"):
        assert not HttpClient().get(path).headers.keys() & {"RateLimit", "RateLimit-Policy"}


def test_a_window_that_is_not_used_up_shows_when_one_more_is_free() -> None:
    limit = rate_limits.Limit("reads", 1, RateLimitItemPerMinute(100))
    window = rate_limits._window(limit, Counters(0, 0, 40, 90.5))
    assert (window.state(), window.policy()) == ('"reads";r=60;t=31', '"reads";q=100;w=60')
