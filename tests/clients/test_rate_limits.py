"""Rate limits: shared counts, rejections, and requests without Redis."""

import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.test import Client as HttpClient
from hypothesis import given
from hypothesis import strategies as st
from limits import RateLimitItem, RateLimitItemPerMinute
from limits.strategies import SlidingWindowCounterRateLimiter

from clients import rate_limits
from clients.authentication import Caller
from clients.models import ApiKey
from clients.rate_limits import Counters, CountingStorage
from simservice.api.parsers import StrictJSONParser
from simservice.redis import client
from simservice.telemetry.metrics import REGISTRY
from tests.conftest import Api
from tests.factories import make_account, make_key
from tests.jobs.api.bodies import BODY

HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")


def caller(**plan: Any) -> Api:
    """Return a caller with its own account."""
    return Api(make_key(make_account(**plan))[1])


def rejections(kind: str) -> float:
    return REGISTRY.get_sample_value("simservice_rate_limited_total", {"kind": kind}) or 0


@pytest.mark.django_db
def test_a_read_over_the_limit_is_rejected_with_retry_after() -> None:
    api, before = caller(reads_per_minute=3), rejections("reads")
    assert [api.get("jobs/1").status_code for _ in range(4)] == [404, 404, 404, 429]
    response = api.get("jobs/1")
    assert (response.json()["code"], response.json()["meta"]) == (
        "rate_limit_exceeded",
        {"scope": "developer", "limit": "reads"},
    )
    assert 1 <= int(response["Retry-After"]) <= 60
    assert rejections("reads") - before == 2


@pytest.mark.django_db
def test_every_authenticated_response_has_limit_headers() -> None:
    api, now = caller(reads_per_minute=2, submissions_per_minute=1), int(time.time())
    responses = [
        api.get("builds"),
        api.get("jobs/1"),
        api.get("builds"),
        api.post("jobs", {}),
        api.post("jobs", {}),
    ]
    assert [response.status_code for response in responses] == [200, 404, 429, 400, 429]
    assert [tuple(response[name] for name in HEADERS[:2]) for response in responses] == [
        ("2", "1"),
        ("2", "0"),
        ("2", "0"),
        ("1", "0"),
        ("1", "0"),
    ]
    assert all(now < int(response["X-RateLimit-Reset"]) <= now + 62 for response in responses)


@pytest.mark.django_db
def test_a_request_succeeds_after_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RateLimitItem, "get_expiry", lambda _: 1)
    api = caller(reads_per_minute=2)
    responses = [api.get("builds") for _ in range(3)]
    assert responses[-1].status_code == 429
    time.sleep(int(responses[-1]["Retry-After"]))
    assert api.get("builds").status_code == 200


@pytest.mark.django_db
def test_reads_are_counted_by_key_and_submissions_by_account() -> None:
    account = make_account(reads_per_minute=1, submissions_per_minute=1)
    one, other = Api(make_key(account)[1]), Api(make_key(account)[1])
    assert [api.get("builds").status_code for api in (one, other, one)] == [200, 200, 429]
    assert [api.post("jobs", {}).status_code for api in (one, other)] == [400, 429]


@pytest.mark.django_db
def test_bytes_of_submissions_are_limited() -> None:
    api, before = caller(submission_bytes_per_minute=1_000), rejections("bytes")
    assert [api.post("jobs", "x" * 600).status_code for _ in range(2)] == [400, 429]
    response = api.post("jobs", "x" * 600)
    assert response.json()["meta"] == {"scope": "developer", "limit": "bytes"}
    assert 1 <= int(response["Retry-After"]) <= 120
    assert response["X-RateLimit-Limit"] == "1200"
    assert rejections("bytes") - before == 2
    assert api.post("jobs", "x" * 300).status_code == 400


@pytest.mark.django_db
def test_a_body_over_the_byte_limit_counts_as_the_whole_limit() -> None:
    api = caller(submission_bytes_per_minute=100)
    assert [api.post("jobs", body).status_code for body in ("x" * 200, "x")] == [400, 429]


@pytest.mark.django_db
def test_bytes_are_counted_by_account_for_submissions_only() -> None:
    account = make_account(submission_bytes_per_minute=100)
    one, other = Api(make_key(account)[1]), Api(make_key(account)[1])
    assert [api.post("jobs", "x" * 100).status_code for api in (one, other)] == [400, 429]
    assert one.get("builds").status_code == 200
    assert caller().post("jobs", "x" * 100).status_code == 400


@pytest.mark.django_db
def test_chunked_bytes_are_counted_before_they_are_parsed() -> None:
    api = caller(submission_bytes_per_minute=100)
    headers = {"transfer-encoding": "chunked"}
    codes = [api.post("jobs", "{not json".ljust(60), headers=headers).json()["code"] for _ in range(2)]
    assert codes == ["invalid_json", "rate_limit_exceeded"]


@pytest.mark.django_db
def test_a_chunked_body_that_is_too_large_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StrictJSONParser, "limit", 50)
    api = caller(submission_bytes_per_minute=100)
    headers = {"transfer-encoding": "chunked"}
    codes = [api.post("jobs", "x" * 60, headers=headers).json()["code"] for _ in range(2)]
    assert codes == ["request_too_large", "rate_limit_exceeded"]


@pytest.mark.django_db
def test_replays_count_their_bytes() -> None:
    size = len(json.dumps(BODY))
    api = caller(submission_bytes_per_minute=2 * size)
    responses = [api.post("jobs", BODY, headers={"idempotency-key": "a"}) for _ in range(3)]
    assert [response.status_code for response in responses] == [200, 200, 429]


@pytest.mark.django_db
def test_a_submission_succeeds_after_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RateLimitItem, "get_expiry", lambda _: 1)
    api = caller(submission_bytes_per_minute=1_000)
    responses = [api.post("jobs", "x" * 900) for _ in range(2)]
    assert responses[-1].status_code == 429
    time.sleep(int(responses[-1]["Retry-After"]))
    assert api.post("jobs", "x" * 900).status_code == 400


@pytest.mark.parametrize(
    ("window", "cost", "seconds"),
    [
        ((0, 0.0, 0, 0.0), 100, 1),
        ((0, 0.0, 100, 120.0), 1, 60),
        ((0, 0.0, 100, 90.0), 51, 60),
        ((100, 30.0, 0, 90.0), 51, 1),
        ((100, 60.0, 0, 120.0), 76, 45),
        ((100, 60.0, 20, 120.0), 81, 60),
        ((100, 60.0, 50, 120.0), 76, 90),
    ],
)
def test_retry_after_is_computed_from_the_sliding_window(
    window: tuple[int, float, int, float], cost: int, seconds: int
) -> None:
    limit = rate_limits.Limit("bytes", 1, RateLimitItemPerMinute(100))
    assert rate_limits.wait_seconds(limit, Counters(*window), cost) == seconds


@pytest.mark.django_db
def test_accounts_are_counted_separately() -> None:
    one, other = caller(submissions_per_minute=1), caller(submissions_per_minute=1)
    assert [api.post("jobs", {}).status_code for api in (one, other, one)] == [400, 400, 429]


@pytest.mark.django_db
def test_a_rejected_submission_is_not_parsed() -> None:
    api = caller(submissions_per_minute=1)
    assert [api.post("jobs", "{not json").json()["code"] for _ in range(2)] == [
        "invalid_json",
        "rate_limit_exceeded",
    ]


@pytest.mark.django_db
def test_a_request_without_a_key_has_no_limit_headers() -> None:
    response = HttpClient().get("/v1/sim/builds")
    assert response.status_code == 401
    assert not any(name in response for name in HEADERS)


@pytest.mark.django_db
def test_the_usage_of_reads(key: tuple[ApiKey, str], api: Api) -> None:
    for _ in range(3):
        api.get("builds")
    window = rate_limits.reads(Caller(key[0]))
    assert window is not None
    assert (window.used, window.limit.item.amount) == (3, 6000)


@pytest.fixture
def hanging_redis(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace Redis by a server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = urlsplit(settings.REDIS_URL)._replace(netloc=f"127.0.0.1:{server.getsockname()[1]}").geturl()
        monkeypatch.setattr(settings, "REDIS_URL", url)
        forget_connections()
        yield
    monkeypatch.undo()
    forget_connections()


def forget_connections() -> None:
    client.redis.cache_clear()
    rate_limits.limiter.cache_clear()


@pytest.mark.django_db
@pytest.mark.usefixtures("hanging_redis")
def test_requests_are_allowed_while_redis_hangs(key: tuple[ApiKey, str]) -> None:
    api, started = Api(key[1]), time.monotonic()
    responses = [api.get("builds") for _ in range(50)]
    assert {response.status_code for response in responses} == {200}
    assert not any(name in response for name in HEADERS for response in responses)
    # Each request alone would wait for two seconds.
    assert time.monotonic() - started < 30
    assert rate_limits.reads(Caller(key[0])) is None


def test_the_counter_uses_a_sliding_window() -> None:
    assert isinstance(rate_limits.limiter(), SlidingWindowCounterRateLimiter)


def test_a_request_in_a_new_window_waits_for_a_whole_period() -> None:
    assert Counters(0, 0, 1, 120.0).reset_in(60) == 60


def seconds(first: int, last: int) -> st.SearchStrategy[float]:
    """Return times that are exact as floats. Others differ in rounding when a request just becomes possible."""
    return st.integers(64 * first, 64 * last).map(lambda part: part / 64)


@given(
    previous=st.integers(0, 200),
    previous_left=seconds(0, 60),
    current=st.integers(0, 200),
    current_left=seconds(60, 120).filter(lambda left: left < 120),
)
def test_windows_equal_those_of_the_library(
    previous: int, previous_left: float, current: int, current_left: float
) -> None:
    counters = Counters(previous, previous_left, current, current_left)
    item = RateLimitItemPerMinute(100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CountingStorage, "get_sliding_window", lambda *_: counters)
        expected, now = rate_limits.limiter().get_window_stats(item), time.time()
    assert max(0, 100 - counters.used(60)) == expected.remaining
    assert now + counters.reset_in(60) == pytest.approx(expected.reset_time, abs=0.5)
