"""The schedule of periodic tasks in the `control` workers."""

import threading
import time
from typing import Any

import pytest
from celery.beat import Scheduler, Service
from celery.exceptions import WorkerShutdown
from celery.worker import state

from simservice import beat
from simservice.celery import app
from simservice.redis import client
from tests.concurrency import at_once

pytestmark = pytest.mark.usefixtures("empty_redis")


def test_only_one_worker_sends_a_task_per_interval() -> None:
    answers: list[bool] = []
    at_once(4, lambda: answers.append(beat.is_first("sweep", seconds=60)))
    assert sorted(answers) == [False, False, False, True]
    assert beat.is_first("another", seconds=60)


def test_a_task_is_sent_again_in_the_next_interval() -> None:
    assert beat.is_first("sweep", seconds=0.05)
    threading.Event().wait(0.1)
    assert beat.is_first("sweep", seconds=60)


def test_two_schedulers_send_each_task_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def record(_: Scheduler, entry: Any, *__: Any, **___: Any) -> None:
        sent.append(entry.name)

    monkeypatch.setattr(Scheduler, "apply_async", record)
    schedulers = [beat.SharedScheduler(app=app) for _ in range(2)]
    for scheduler in schedulers:
        for entry in scheduler.schedule.values():
            scheduler.apply_async(entry)
    assert sorted(sent) == sorted(app.conf.beat_schedule)


def test_no_task_is_sent_while_nobody_receives_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(Scheduler, "apply_async", lambda _, entry, *__, **___: sent.append(entry.name))
    scheduler = beat.SharedScheduler(app=app)
    client.redis().rpush("control", *["message"] * beat.MAX_WAITING)
    for entry in scheduler.schedule.values():
        scheduler.apply_async(entry)
    assert sent == []


def test_no_message_depends_on_the_clock_of_its_sender() -> None:
    assert not [entry for entry in app.conf.beat_schedule.values() if entry.get("options")]


def test_each_scheduler_sends_tasks_while_redis_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.outage, "may_try", lambda: False)
    assert [beat.is_first("sweep", seconds=60) for _ in range(2)] == [True, True]


def test_the_schedule_sleeps_until_a_task_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(Scheduler, "apply_async", lambda _, entry, *__, **___: sent.append(entry.name))
    entries = {"often": {"task": "jobs.tasks.sweep", "schedule": 0.1}}
    monkeypatch.setattr(app.conf, "beat_schedule", entries)
    scheduler, ticks = beat.SharedScheduler(app=app), 0
    while len(sent) < 3:
        time.sleep(max(scheduler.tick(), 0))
        ticks += 1
    assert ticks <= 12


def test_a_failed_schedule_stops_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "should_stop", None)
    monkeypatch.setattr(beat.SharedScheduler, "tick", lambda _: 1 / 0)
    beat._run(Service(app, scheduler_cls=beat.SharedScheduler))
    with pytest.raises(WorkerShutdown) as stopped:
        state.maybe_shutdown()
    assert stopped.value.code == 1
