"""Use of Redis during an outage."""

import logging
import threading
import time

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError

from simservice import outages
from simservice.redis import shared_metrics
from simservice.redis.client import best_effort, outage, redis

pytestmark = pytest.mark.usefixtures("empty_redis")


def refuse() -> str:
    raise RedisConnectionError


def failures() -> float:
    """Return the number of failed commands that all processes have counted."""
    shared_metrics.flusher.flush()
    return shared_metrics.read().get("redis_failures", 0)


def test_a_result_is_returned() -> None:
    assert best_effort(lambda: redis().incr("n"), default=0) == 1


def test_an_outage_costs_one_command_one_log_line_and_one_count(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[int] = []
    before = failures()

    def command() -> str:
        sent.append(1)
        return refuse()

    assert [best_effort(command, default="none") for _ in range(50)] == ["none"] * 50
    assert (len(sent), len(caplog.records)) == (1, 1)
    outage.record_success()
    assert failures() == before + 1


def test_redis_is_retried_after_a_delay(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(outages, "RETRY_SECONDS", 0.05)
    caplog.set_level(logging.WARNING)
    best_effort(refuse, default="")
    assert best_effort(lambda: "result", default="") == ""
    time.sleep(0.1)
    assert best_effort(lambda: "result", default="") == "result"
    assert best_effort(lambda: "another", default="") == "another"
    assert [record.message for record in caplog.records][1:] == [
        "Redis works again; rate limits and progress are available"
    ]


def test_only_one_thread_at_a_time_probes_a_hanging_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "RETRY_SECONDS", 0.0)
    outage.record_failure(RedisConnectionError())
    release, started = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        release.wait(10)

    prober = threading.Thread(target=best_effort, args=(hang,), kwargs={"default": None})
    prober.start()
    started.wait(10)
    others = [best_effort(lambda: "sent", default="skipped") for _ in range(5)]
    release.set()
    prober.join()
    assert others == ["skipped"] * 5


@pytest.mark.parametrize("error", [TypeError, DataError, KeyError])
def test_a_programming_error_is_raised(error: type[Exception]) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(error):
        best_effort(fail, default=None)
    assert outage.may_try()
