"""Bodies made to cost as much as possible are answered cheaply, whatever the answer is."""

import time
from collections.abc import Iterator

import pytest

from bench import hostile
from bench.hostile import Body
from simservice.api import parsers
from tests.conftest import Api
from tests.factories import make_account, make_key

# The aim is 0.25 on an idle machine; CPU time grows when others use its caches.
SECONDS = 0.5
ROUNDS = 3


@pytest.fixture
def unlimited(db: None, monkeypatch: pytest.MonkeyPatch) -> Api:
    """The API as a caller sees it who may send the largest bodies as fast as they come."""
    monkeypatch.setattr(parsers, "MAX_BODY_BYTES", hostile.JSON_BYTES)
    plan = {"submissions_per_minute": 10**6, "submission_bytes_per_minute": 10**12}
    return Api(make_key(make_account(**plan))[1])


def costs(api: Api, body: Body) -> Iterator[float]:
    """Submit a body again and again; yield the CPU seconds of each answer, which blames nobody but the caller."""
    path = "jobs?channel=latest" if body.form == "text/plain" else "jobs"
    for _ in range(ROUNDS):
        begun = time.process_time()
        answer = api.post(path, body.content, content_type=body.form)
        taken = time.process_time() - begun
        assert answer.status_code in (200, 400, 413, 422), body.name
        yield taken


def is_cheap(api: Api, body: Body) -> bool:
    """Return whether one of several attempts is answered in time; another process may delay the others."""
    return any(cost < SECONDS for cost in costs(api, body))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["application/json", "text/plain"])
def test_any_body_of_any_size_is_answered_cheaply(unlimited: Api, form: str) -> None:
    bodies = (body for body in hostile.bodies() if body.form == form)
    assert [body.name for body in bodies if not is_cheap(unlimited, body)] == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("one-letter words", "more than 60,000 options"),
        ("one-letter lines", "more than 120,000 lines"),
        ("quotes", "more than 120,000 quotes"),
        ("100,000 templates", "more than 20,000 dollar signs"),
    ],
)
def test_an_oversized_profile_is_refused_with_the_reason(api: Api, name: str, told: str) -> None:
    answer = api.post_text("channel=latest", hostile.PROFILES[name]())
    assert (answer.status_code, answer.json()["code"]) == (422, "input_sanitized_rejected")
    assert told in answer.json()["error"]
    meta = answer.json()["meta"]
    assert (meta["reason"], meta["message"]) == ("input_sanitized_rejected", answer.json()["error"])
    assert (meta["blocked"], meta["blockedCount"], meta["blockedTruncated"]) == ([], 0, False)


@pytest.mark.parametrize(("entries", "code"), [(9_999, "validation_failed"), (10_001, "invalid_json")])
def test_a_body_has_a_largest_number_of_values(api: Api, entries: int, code: str) -> None:
    assert api.post("jobs", [0] * entries).json()["code"] == code


def test_what_strings_hold_counts_as_no_value(api: Api) -> None:
    assert api.post("jobs", ['\\",[{' * 20_000, ",[{" * 20_000]).json()["code"] == "validation_failed"
