"""Metrics that all processes share."""

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from django.conf import settings
from redis.exceptions import ConnectionError as RedisDown

from simservice.redis import client, shared_metrics
from simservice.redis.shared_metrics import Flusher, SharedCounter, SharedHistogram
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("empty_redis")

EATEN = SharedCounter("eaten", "Apples.", {"colour": ["green", "red"]})
SECONDS = SharedHistogram("meal_seconds", "Meals.", {"place": []}, buckets=(1, 2.5))
COUNT_ONE = """
import django
django.setup()
from simservice.redis import shared_metrics
shared_metrics.record({"eaten|red": 1})
"""


def values(metric: SharedCounter | SharedHistogram) -> dict[str, float]:
    """Return the stored samples of a metric by name and labels."""
    samples = metric.family(shared_metrics.read()).samples
    names = (sample.name.removeprefix("simservice_") for sample in samples)
    return {" ".join([name, *each.labels.values()]): each.value for name, each in zip(names, samples, strict=True)}


@pytest.mark.slow
def test_processes_add_up() -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "simservice.settings"}
    command = [sys.executable, "-c", COUNT_ONE]
    processes = [subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert values(EATEN) == {"eaten_total green": 0, "eaten_total red": 2}


def test_buckets_of_a_histogram_are_cumulative() -> None:
    sender = Flusher()
    sender.add([SECONDS.increments(seconds, "home") for seconds in (0.5, 1, 2, 30, -1)])
    sender.flush()
    assert values(SECONDS) == {
        "meal_seconds_bucket home 1": 3,
        "meal_seconds_bucket home 2.5": 4,
        "meal_seconds_bucket home +Inf": 5,
        "meal_seconds_count home": 5,
        "meal_seconds_sum home": 33.5,
    }


def test_what_redis_refuses_is_sent_later(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = Flusher()
    monkeypatch.setattr(sender, "start", lambda: None)
    with monkeypatch.context() as broken:
        broken.setattr(shared_metrics, "_send", _fail)
        sender.add([EATEN.increments("red")])
        sender.flush()
    client.outage.record_success()
    sender.add([EATEN.increments("red"), EATEN.increments("green")])
    sender.flush()
    assert values(EATEN) == {"eaten_total green": 1, "eaten_total red": 2}


def _fail(_: Any) -> None:
    raise RedisDown


def test_changes_are_sent_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_metrics, "SEND_SECONDS", 0.01)
    sender = Flusher()
    sender.add([EATEN.increments("red")])
    wait_until(lambda: bool(shared_metrics.read()))
    thread = sender._thread
    sender.add([EATEN.increments("red")])
    wait_until(lambda: values(EATEN) == {"eaten_total green": 0, "eaten_total red": 2})
    assert sender._thread is thread


def test_no_change_is_lost_between_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_metrics, "SEND_SECONDS", 0.001)
    sender = Flusher()

    def count() -> None:
        for _ in range(500):
            sender.add([EATEN.increments("red")])

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sender.flush()
    wait_until(lambda: values(EATEN) == {"eaten_total green": 0, "eaten_total red": 2000})
