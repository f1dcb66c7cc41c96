"""Request bodies that try to use much CPU time or memory."""

import time
import tracemalloc
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import Any

import pytest
from django.core.signals import request_started
from django.db import close_old_connections
from django.test import RequestFactory

from simservice.web.wsgi_handler import Handler
from tests.conftest import Api
from tests.factories import make_account, make_key
from tests.jobs.api import hostile_bodies as hostile
from tests.jobs.api.bodies import only_in
from tests.jobs.api.hostile_bodies import Body

pytestmark = [only_in("C"), pytest.mark.timeout(600)]

# The target is 0.25 on an idle machine; CPU time grows when other processes use the caches.
SECONDS = 0.5
ROUNDS = 3
MEMORY_BYTES = 100_000_000


@pytest.fixture
def secret(db: None) -> str:
    """A key without limits on bytes and submissions."""
    plan = {"submissions_per_minute": 10**6, "submission_bytes_per_minute": 10**12}
    return make_key(make_account(**plan))[1]


@pytest.fixture
def unlimited(secret: str) -> Api:
    """The API with a key without limits."""
    return Api(secret)


@pytest.fixture
def handler() -> Iterator[Handler]:
    """The WSGI application, on the test's database connection."""
    application = Handler()
    request_started.disconnect(close_old_connections)
    yield application
    request_started.connect(close_old_connections)


def peak(handler: Handler, secret: str, body: bytes) -> int:
    """Submit a body from a file, as the web server does; return the peak memory in bytes."""
    environ: dict[str, Any] = (
        RequestFactory(headers={"authorization": f"Bearer {secret}"}).post("/v1/sim/jobs").environ
    )
    environ |= {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body))}
    statuses: list[str] = []
    with SpooledTemporaryFile(max_size=1) as file:
        file.write(body)
        file.seek(0)
        environ["wsgi.input"] = file
        tracemalloc.start()
        b"".join(handler(environ, lambda status, _: statuses.append(status)))
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert statuses[0][:3] in ("200", "400", "413", "422")
    return peak_bytes


def costs(api: Api, body: Body) -> Iterator[float]:
    """Submit a body repeatedly; yield the CPU seconds of each response, which must be a client error."""
    path = "jobs?channel=latest" if body.form == "text/plain" else "jobs"
    for _ in range(ROUNDS):
        started = time.process_time()
        response = api.post(path, body.content, content_type=body.form)
        cpu_seconds = time.process_time() - started
        assert response.status_code in (200, 400, 413, 422), body.name
        yield cpu_seconds


def is_cheap(api: Api, body: Body) -> bool:
    """Return whether one of several attempts is in time; other processes may delay some."""
    return any(cost < SECONDS for cost in costs(api, body))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["application/json", "text/plain"])
def test_bodies_of_any_size_take_little_cpu_time(unlimited: Api, form: str) -> None:
    bodies = (body for body in hostile.bodies() if body.form == form)
    assert [body.name for body in bodies if not is_cheap(unlimited, body)] == []


@pytest.mark.slow
def test_json_bodies_take_little_memory(handler: Handler, secret: str) -> None:
    bodies = (body for body in hostile.bodies() if body.form == "application/json")
    assert [body.name for body in bodies if peak(handler, secret, body.content) > MEMORY_BYTES] == []


def escaped(profile: str) -> str:
    """Return a submission that escapes each character of its profile."""
    return hostile.HEAD + "".join(f"\\u{ord(character):04x}" for character in profile) + hostile.TAIL


def plain(profile: str) -> str:
    """Return a submission whose profile needs no escapes."""
    return hostile.HEAD + profile + hostile.TAIL


@pytest.mark.parametrize(("size", "status"), [(hostile.PROFILE_BYTES, 200), (hostile.PROFILE_BYTES + 1, 413)])
@pytest.mark.parametrize("write", [escaped, plain])
def test_escapes_do_not_count_against_a_profile(unlimited: Api, size: int, status: int, write: Any) -> None:
    response = unlimited.post("jobs", write("mage=A#".ljust(size, "x")))
    assert response.status_code == status
    assert status == 200 or response.json()["code"] == "profile_too_large"


@pytest.mark.parametrize("character", ["a", "é", "\U0001f600"])
def test_a_profile_that_fills_the_body_is_too_large(unlimited: Api, character: str) -> None:
    body = hostile.filled(character, size=hostile.JSON_BYTES, head=hostile.HEAD, tail=hostile.TAIL)
    assert unlimited.post("jobs", body).json()["code"] == "profile_too_large"


def test_a_wide_profile_of_two_megabytes_may_be_escaped(unlimited: Api) -> None:
    profile = "mage=A\n#".ljust(hostile.PROFILE_BYTES - 4, "x")
    body = escaped(profile).replace(hostile.TAIL, f"\U0001f600{hostile.TAIL}")
    assert unlimited.post("jobs", body).status_code == 200


@pytest.mark.parametrize(
    ("media_type", "size", "code"),
    [
        ("application/json", 13 << 20, "invalid_json"),
        ("application/json", 13 << 20 | 1, "request_too_large"),
        ("text/plain", (2 << 20) + (64 << 10), "profile_too_large"),
        ("text/plain", (2 << 20) + (64 << 10) + 1, "request_too_large"),
    ],
)
def test_each_media_type_has_its_own_limit(unlimited: Api, media_type: str, size: int, code: str) -> None:
    path = "jobs?channel=latest" if media_type == "text/plain" else "jobs"
    assert unlimited.post(path, b" " * size, content_type=media_type).json()["code"] == code


@pytest.mark.parametrize("content", [b'"', b"\\", b'""', b'\\"', b"[", b"{}", b'"a":'])
def test_a_repeated_small_part_is_rejected_at_once(unlimited: Api, content: bytes) -> None:
    body = content * (hostile.JSON_BYTES // len(content))
    assert unlimited.post("jobs", body).json()["code"] == "invalid_json"
    # The first response also loads code.
    assert is_cheap(unlimited, Body("repeated", "application/json", body))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("one-letter words", "more than 60,000 options"),
        ("one-letter lines", "more than 120,000 lines"),
        ("quotes", "more than 120,000 quotes"),
        ("100,000 templates", "more than 20,000 dollar signs"),
    ],
)
def test_an_oversized_profile_is_rejected_with_a_reason(api: Api, name: str, reason: str) -> None:
    response = api.post_text("channel=latest", hostile.PROFILES[name]())
    assert (response.status_code, response.json()["code"]) == (422, "input_sanitized_rejected")
    assert reason in response.json()["error"]
    meta = response.json()["meta"]
    assert (meta["reason"], meta["message"]) == ("input_sanitized_rejected", response.json()["error"])
    assert (meta["blocked"], meta["blockedCount"], meta["blockedTruncated"]) == ([], 0, False)


@pytest.mark.parametrize(("entries", "code"), [(9_999, "validation_failed"), (10_001, "invalid_json")])
def test_the_number_of_values_in_a_body_is_limited(api: Api, entries: int, code: str) -> None:
    assert api.post("jobs", [0] * entries).json()["code"] == code


def test_text_within_strings_does_not_count_as_values(api: Api) -> None:
    assert api.post("jobs", ['\\",[{' * 20_000, ",[{" * 20_000]).json()["code"] == "validation_failed"
