"""What happens while Redis does not answer."""

import logging
import threading
import time

import pytest
from redis.exceptions import ConnectionError as Refused
from redis.exceptions import DataError

from simservice.metrics import REGISTRY
from simservice.redis import client
from simservice.redis.client import best_effort, outage, redis


def refuse() -> str:
    raise Refused


def failures() -> float:
    """Return how many questions were counted as failed."""
    return REGISTRY.get_sample_value("simservice_redis_failures_total") or 0


def test_an_answer_is_passed_on() -> None:
    assert best_effort(lambda: redis().incr("n"), default=0) == 1


def test_an_outage_costs_one_question_one_line_and_one_count(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[int] = []
    before = failures()

    def question() -> str:
        asked.append(1)
        return refuse()

    assert [best_effort(question, default="none") for _ in range(50)] == ["none"] * 50
    assert (len(asked), failures() - before, len(caplog.records)) == (1, 1, 1)


def test_redis_is_asked_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.05)
    caplog.set_level(logging.WARNING)
    best_effort(refuse, default="")
    assert best_effort(lambda: "answer", default="") == ""
    time.sleep(0.1)
    assert best_effort(lambda: "answer", default="") == "answer"
    assert best_effort(lambda: "another", default="") == "another"
    assert [record.message for record in caplog.records][1:] == ["Redis responds again"]


def test_one_thread_at_a_time_asks_a_redis_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.0)
    outage.record_failure(Refused())
    release, asked = threading.Event(), threading.Event()

    def hang() -> None:
        asked.set()
        release.wait(10)

    asker = threading.Thread(target=best_effort, args=(hang,), kwargs={"default": None})
    asker.start()
    asked.wait(10)
    others = [best_effort(lambda: "asked", default="left out") for _ in range(5)]
    release.set()
    asker.join()
    assert others == ["left out"] * 5


@pytest.mark.parametrize("error", [TypeError, DataError, KeyError])
def test_a_mistake_of_ours_is_not_hidden(error: type[Exception]) -> None:
    def blunder() -> None:
        raise error

    with pytest.raises(error):
        best_effort(blunder, default=None)
    assert outage.may_try()
