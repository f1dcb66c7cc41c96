"""Announcements of jobs: their cost, the messages that they leave in the lanes, and lost messages."""

import os
import socket
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import Error as DatabaseError
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from redis.exceptions import ConnectionError as RedisConnectionError

from jobs.enums import MoveResult, Priority, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.transitions import IllegalTransition
from jobs.models import Job, JobEvent
from jobs.queue import announcements, forecast, sweep
from simservice.celery import app
from simservice.redis.client import outage, redis
from tests.factories import make_account, make_client, make_job
from tests.jobs.lanes import messages
from tests.jobs.plans import copy_job
from tests.redis_commands import redis_commands

OLD = timedelta(minutes=1)
WAITING_JOBS = 100_000 if "SIMSERVICE_LONG" in os.environ else 200


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each attempt to send a message; all attempts fail."""
    failed: list[int] = []

    def fail(*_: object, **__: object) -> None:
        failed.append(1)
        raise RedisConnectionError

    monkeypatch.setattr(announcements, "send", fail)
    return failed


@pytest.mark.django_db
def test_an_announcement_costs_one_statement_and_two_round_trips(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    announcements.announce(make_job())  # Celery connects
    job = make_job()
    with django_assert_num_queries(1), redis_commands() as commands:
        announcements.announce(job)
    assert commands == ["LLEN GET", "LPUSH"]
    assert (job.status, Job.objects.get(pk=job.pk).status) == (Status.QUEUED, Status.QUEUED)


@pytest.mark.django_db
@pytest.mark.parametrize("priority", Priority)
def test_each_job_is_announced_in_its_lane(priority: Priority) -> None:
    for _ in range(2):
        announcements.announce(make_job(priority=priority))
    assert messages() == {announcements.queue_of(priority): 2}
    assert announcements.queue_of(priority) in app.amqp.queues


@pytest.mark.django_db
@pytest.mark.parametrize(("slots", "limit"), [(None, 10), (0, 10), (3, 10), (8, 16), (100, 200)])
def test_a_lane_contains_few_messages_for_each_live_slot(slots: int | None, limit: int) -> None:
    if slots is not None:
        redis().set(forecast.SLOTS_KEY, slots)
    for _ in range(limit):
        announcements.wake_one(Priority.STANDARD)
    assert messages() == {"sim.standard": limit}
    for _ in range(3):
        announcements.announce(make_job())
    assert announcements.wake(Priority.STANDARD, slots=1000) == 0
    assert messages() == {"sim.standard": limit}


@pytest.mark.django_db
@pytest.mark.timeout(1200)
def test_many_waiting_jobs_leave_few_messages() -> None:
    """Each third job is in each lane, and eight slots are live."""
    redis().set(forecast.SLOTS_KEY, 8)
    copy_job(make_job(created_at=timezone.now() - OLD).pk, WAITING_JOBS - 1)
    announced = sum(iter(announcements.announce_pending, 0))
    assert announced == Job.objects.filter(status="queued").count() == WAITING_JOBS
    assert messages() == {"sim.high": 16, "sim.standard": 16, "sim.background": 16}


@pytest.mark.usefixtures("empty_redis")
def test_a_lane_is_filled_up_for_waiting_shards() -> None:
    assert announcements.wake(Priority.BACKGROUND, slots=3) == 3
    assert announcements.wake(Priority.BACKGROUND, slots=3) == 0
    assert announcements.wake(Priority.BACKGROUND, slots=4) == 1
    assert announcements.wake(Priority.BACKGROUND, slots=-1) == 0
    assert messages() == {"sim.background": 4}


@pytest.mark.django_db
def test_the_sweep_publishes_the_number_of_live_slots() -> None:
    sweep.sweep()
    assert redis().get(forecast.SLOTS_KEY) == "0"
    assert 0 < redis().ttl(forecast.SLOTS_KEY) <= forecast.KEPT_SECONDS


@pytest.mark.django_db
def test_a_job_that_was_claimed_first_needs_no_message() -> None:
    job = make_job()
    assert job_moves.claim_job("w") is not None
    announcements.announce(job)
    assert (messages(), Job.objects.get(pk=job.pk).status) == ({}, Status.STARTING)


CLAIMED = {"worker": "w", "lease_expires_at": timezone.now(), "attempt": 1}
FAILED = {"error_code": "internal", "completed_at": timezone.now(), "credits_consumed": 0}
STATES: list[dict[str, Any]] = [
    {"status": "pending", "attempt": 0},
    {"status": "pending", "attempt": 1},
    {"status": "queued", "attempt": 0},
    {"status": "queued", "attempt": 1},
    {"status": "starting", **CLAIMED},
    {"status": "failed", "attempt": 0, **FAILED},
]


@pytest.mark.django_db
@pytest.mark.parametrize("state", STATES)
def test_a_job_is_marked_as_queued_if_nothing_else_moved_it(state: dict[str, Any]) -> None:
    job = make_job(updated_at=timezone.now() - OLD)
    # The instance remains pending, as the announcer read it.
    Job.objects.filter(pk=job.pk).update(**state)
    is_moved = state == STATES[0]
    assert job_moves.mark_queued(job) is (MoveResult.DONE if is_moved else MoveResult.TAKEN)
    assert job.status == (Status.QUEUED if is_moved else Status.PENDING)
    row = Job.objects.get(pk=job.pk)
    assert row.status == (Status.QUEUED if is_moved else state["status"])
    assert (timezone.now() - row.updated_at < OLD) == is_moved
    events = JobEvent.objects.filter(job=job).order_by("id").values_list("from_status", "to_status", "attempt")
    assert list(events) == [("", "pending", 0), ("pending", "queued", 0)][: 1 + is_moved]


@pytest.mark.django_db
def test_only_a_pending_job_is_marked_as_queued() -> None:
    with pytest.raises(IllegalTransition):
        job_moves.mark_queued(make_job(status=Status.QUEUED))


@pytest.mark.django_db
def test_during_an_outage_jobs_stay_pending(unreachable: list[int]) -> None:
    outage.record_failure(RedisConnectionError())
    job = make_job(created_at=timezone.now() - OLD)
    announcements.announce(job)
    assert (Job.objects.get(pk=job.pk).status, unreachable) == (Status.PENDING, [])


@pytest.mark.django_db
def test_a_job_whose_message_failed_is_found_by_the_sweep(
    unreachable: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job()
    announcements.announce(job)
    assert (Job.objects.get(pk=job.pk).status, unreachable) == (Status.QUEUED, [1])
    monkeypatch.undo()
    outage.record_success()
    sweep.sweep()
    assert messages() == {"sim.standard": 1}


@pytest.mark.django_db
def test_an_announcement_does_not_wait_long_for_redis(settings: Any) -> None:
    job = make_job()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        redis.cache_clear()
        started = time.monotonic()
        announcements.announce(job)
        # The server never responds.
        assert 1 < time.monotonic() - started < 30
    redis.cache_clear()
    outage.record_success()


@pytest.mark.django_db
def test_the_sweep_restores_messages_after_redis_is_emptied() -> None:
    client = make_client(make_account())
    for priority in [Priority.BACKGROUND, *[Priority.HIGH] * 3]:
        announcements.announce(make_job(client, priority=priority))
    lost = messages()
    redis().flushdb()
    assert sweep.sweep()["woken"] == 4
    assert sweep.sweep()["woken"] == 0
    assert messages() == lost == {"sim.high": 3, "sim.background": 1}


@pytest.mark.django_db
def test_a_long_lane_does_not_keep_messages_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "SWEEP_BATCH", 2)
    client = make_client(make_account())
    for priority in [*[Priority.HIGH] * 3, Priority.STANDARD]:
        make_job(client, priority=priority)
    assert announcements.replenish() == 3
    assert messages() == {"sim.high": 2, "sim.standard": 1}


@pytest.mark.django_db
def test_an_empty_queue_needs_no_message() -> None:
    sweep.sweep()
    assert messages() == {}


@pytest.mark.django_db
def test_a_message_is_passed_on_only_if_a_job_waits() -> None:
    announcements.pass_on()
    assert messages() == {}
    for priority in (Priority.BACKGROUND, Priority.HIGH):
        make_job(priority=priority)
    announcements.pass_on()
    assert messages() == {"sim.high": 1}


@pytest.mark.django_db
def test_a_message_that_cannot_be_passed_on_is_left_to_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DatabaseError

    monkeypatch.setattr(Job.objects, "filter", fail)
    announcements.pass_on()
    assert messages() == {}
