"""Use of Redis during an outage."""

import logging
import threading
import time

import pytest
from redis.exceptions import ConnectionError as Refused
from redis.exceptions import DataError

from simservice.metrics import REGISTRY
from simservice.redis import client
from simservice.redis.client import ask, outage, redis

pytestmark = pytest.mark.usefixtures("empty_redis")


def refuse() -> str:
    raise Refused


def failures() -> float:
    """Return the number of failed queries."""
    return REGISTRY.get_sample_value("simservice_redis_failures_total") or 0


def test_a_result_is_returned() -> None:
    assert ask(lambda: redis().incr("n"), otherwise=0) == 1


def test_an_outage_costs_one_query_one_log_line_and_one_count(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[int] = []
    before = failures()

    def question() -> str:
        asked.append(1)
        return refuse()

    assert [ask(question, otherwise="none") for _ in range(50)] == ["none"] * 50
    assert (len(asked), failures() - before, len(caplog.records)) == (1, 1, 1)


def test_redis_is_retried_after_a_delay(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(client, "ASKED_AGAIN_AFTER_SECONDS", 0.05)
    caplog.set_level(logging.WARNING)
    ask(refuse, otherwise="")
    assert ask(lambda: "answer", otherwise="") == ""
    time.sleep(0.1)
    assert ask(lambda: "answer", otherwise="") == "answer"
    assert ask(lambda: "another", otherwise="") == "another"
    assert [record.message for record in caplog.records][1:] == ["Redis answers again"]


def test_only_one_thread_at_a_time_probes_a_hanging_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ASKED_AGAIN_AFTER_SECONDS", 0.0)
    outage.failed(Refused())
    release, asked = threading.Event(), threading.Event()

    def hang() -> None:
        asked.set()
        release.wait(10)

    asker = threading.Thread(target=ask, args=(hang,), kwargs={"otherwise": None})
    asker.start()
    asked.wait(10)
    others = [ask(lambda: "asked", otherwise="left out") for _ in range(5)]
    release.set()
    asker.join()
    assert others == ["left out"] * 5


@pytest.mark.parametrize("error", [TypeError, DataError, KeyError])
def test_a_programming_error_is_raised(error: type[Exception]) -> None:
    def blunder() -> None:
        raise error

    with pytest.raises(error):
        ask(blunder, otherwise=None)
    assert outage.may_ask()
