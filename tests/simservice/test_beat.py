"""The scheduler of periodic tasks: several of them, without workers, and during outages of Redis."""

import threading

import pytest
from kombu.utils import symbol_by_name
from redis.exceptions import ConnectionError as RedisConnectionError

from simservice import beat
from simservice.celery import app
from simservice.redis.client import outage, redis
from tests.concurrency import at_once

pytestmark = pytest.mark.usefixtures("empty_redis")


def test_only_one_scheduler_sends_a_task_per_interval() -> None:
    answers: list[bool] = []
    at_once(4, lambda: answers.append(beat.is_first("sweep", seconds=60)))
    assert sorted(answers) == [False, False, False, True]
    assert beat.is_first("another", seconds=60)


def test_a_task_is_sent_again_in_the_next_interval() -> None:
    assert beat.is_first("sweep", seconds=0.05)
    threading.Event().wait(0.1)
    assert beat.is_first("sweep", seconds=60)


def send_all(scheduler: beat.SharedScheduler) -> None:
    """Let a scheduler send each periodic task once, as if all were due."""
    for entry in scheduler.schedule.values():
        scheduler.apply_entry(entry)


def waiting() -> int:
    """Return the number of messages to `control` workers."""
    return int(str(redis().llen("control")))


def test_two_schedulers_send_each_task_once() -> None:
    for _ in range(2):
        send_all(beat.SharedScheduler(app=app))
    assert waiting() == len(app.conf.beat_schedule)


def test_no_task_is_sent_while_nobody_receives_messages() -> None:
    redis().rpush("control", *["message"] * beat.MAX_WAITING)
    send_all(beat.SharedScheduler(app=app))
    assert waiting() == beat.MAX_WAITING


def test_no_message_depends_on_the_clock_of_its_sender() -> None:
    assert not [entry for entry in app.conf.beat_schedule.values() if entry.get("options")]


def test_an_outage_of_redis_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RedisConnectionError("gone")

    monkeypatch.setattr(beat, "send", fail)
    send_all(beat.SharedScheduler(app=app))
    outage.record_success()
    assert [record.name for record in caplog.records if record.levelname != "INFO"] == ["simservice.outages"] * 2
    assert waiting() == 0


def test_celery_beat_uses_the_scheduler() -> None:
    assert symbol_by_name(app.conf.beat_scheduler) is beat.SharedScheduler
