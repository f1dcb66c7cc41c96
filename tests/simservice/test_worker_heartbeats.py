"""Heartbeats of workers, with their slots and sandbox layers."""

import time
from types import SimpleNamespace

import pytest
from redis.exceptions import RedisError

from simservice import worker_heartbeats
from simservice.celery import report_heartbeats
from simservice.redis.client import redis
from simservice.worker_heartbeats import LiveWorker

pytestmark = pytest.mark.usefixtures("empty_redis")


def test_workers_report_their_slots() -> None:
    worker_heartbeats.report("sim@here-1", slots=4)
    worker_heartbeats.report("sim@there-2", slots=2)
    worker_heartbeats.report("webhooks@here-3", slots=8)
    workers = worker_heartbeats.simulation_workers()
    assert sorted(workers) == [LiveWorker("sim@here-1", 4), LiveWorker("sim@there-2", 2)]
    assert worker_heartbeats.total_slots(workers) == 6


def test_a_worker_counts_once_after_a_change() -> None:
    for slots in (4, 0):
        worker_heartbeats.report("sim@here-1", slots=slots)
        assert worker_heartbeats.simulation_workers() == [LiveWorker("sim@here-1", slots)]


def test_workers_report_their_sandbox_layers() -> None:
    worker_heartbeats.report("sim@here", layers=["seccomp", "landlock"])
    assert worker_heartbeats.simulation_workers() == [LiveWorker("sim@here", 1, frozenset({"landlock", "seccomp"}))]
    assert worker_heartbeats.common_layers([]) == []


def test_silent_workers_are_seen_for_a_minute() -> None:
    now = time.time()
    redis().zadd(worker_heartbeats.KEY, {"sim@live 1": now - 5, "sim@silent 2": now - 30, "sim@gone 3": now - 61})
    ages = {worker.name: round(age) for worker, age in worker_heartbeats.last_seen().items()}
    assert ages == {"sim@live": 5, "sim@silent": 30}
    assert worker_heartbeats.simulation_workers() == [LiveWorker("sim@live", 1)]


@pytest.mark.parametrize("days", [-40, 40])
def test_heartbeats_follow_the_clock_of_redis(days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    worker_heartbeats.report("sim@right")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 86_400 * days)
    worker_heartbeats.report("sim@wrong")
    assert sorted(worker.name for worker in worker_heartbeats.simulation_workers()) == ["sim@right", "sim@wrong"]


def test_a_worker_runs_without_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: str) -> None:
        raise RedisError

    monkeypatch.setattr(worker_heartbeats, "_record", fail)
    worker_heartbeats.report("sim@here")


def test_other_workers_are_reported_apart_from_simulation_workers() -> None:
    worker_heartbeats.report("sim@one", slots=2)
    worker_heartbeats.report("control@one", slots=4)
    assert [worker.name for worker in worker_heartbeats.simulation_workers()] == ["sim@one"]
    assert [worker.name for worker in worker_heartbeats.service_workers()] == ["control@one"]


@pytest.mark.parametrize(
    ("queues", "names"),
    [
        (["control"], ["control@"]),
        (["webhooks", "control"], ["control@", "webhooks@"]),
        (["sim.high", "sim.standard"], []),
    ],
)
def test_workers_report_the_queues_that_they_consume(queues: list[str], names: list[str]) -> None:
    calls: list[float] = []
    sender = SimpleNamespace(
        app=SimpleNamespace(amqp=SimpleNamespace(queues=SimpleNamespace(consume_from=dict.fromkeys(queues)))),
        pool=SimpleNamespace(limit=4),
        hub=SimpleNamespace(call_repeatedly=lambda seconds, _: calls.append(seconds)),
    )
    report_heartbeats(sender=sender)
    found = sorted(worker_heartbeats.service_workers(), key=lambda worker: worker.name)
    assert [worker.name[: len(name)] for worker, name in zip(found, names, strict=True)] == names
    assert calls == [worker_heartbeats.SERVICE_SECONDS] * bool(names)
