"""Announcements of jobs: their cost, the hints that they leave, and the slots that they wake."""

import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import Error as DatabaseError
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from redis.exceptions import ConnectionError as RedisConnectionError

from jobs import lifecycle
from jobs.enums import MoveResult, Status
from jobs.lifecycle import IllegalTransition
from jobs.models import Job, JobEvent
from jobs.queueing import announcements, sweep
from simservice.redis.client import TIMEOUT_SECONDS, outage, redis
from tests.factories import make_job
from tests.jobs.idle_slots import IdleSlots, idle_slots, kill_waiting_clients, wait_for_idle
from tests.redis_commands import redis_commands

OLD = timedelta(minutes=1)


def hints() -> int:
    """Return the number of hints that wait for an idle slot."""
    return int(str(redis().zcard(announcements.HINTS)))


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make every hint fail. Each failure adds an item to the list."""
    failed: list[int] = []

    def fail() -> bool:
        failed.append(1)
        raise RedisConnectionError

    monkeypatch.setattr(announcements, "send_hint", fail)
    return failed


@pytest.mark.django_db
def test_an_announcement_costs_one_statement_and_one_command(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    job = make_job()
    with django_assert_num_queries(1), redis_commands() as commands:
        announcements.announce(job)
    assert commands == ["ZADD"]
    assert (job.status, Job.objects.get(pk=job.pk).status, hints()) == (Status.QUEUED, Status.QUEUED, 1)


@pytest.mark.django_db
def test_many_announcements_leave_one_hint() -> None:
    for _ in range(5):
        announcements.announce(make_job())
    assert hints() == 1


@pytest.mark.django_db
def test_a_job_that_was_claimed_first_needs_no_hint() -> None:
    job = make_job()
    assert lifecycle.claim("w") is not None
    announcements.announce(job)
    assert (hints(), Job.objects.get(pk=job.pk).status) == (0, Status.STARTING)


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
def test_marking_as_queued_matches_the_reference_move(state: dict[str, Any]) -> None:
    results = []
    for mark in (lifecycle.mark_queued, lambda job: lifecycle.move(job, to=Status.QUEUED)):
        job = make_job(updated_at=timezone.now() - OLD)
        # The instance remains pending, as the announcer read it.
        Job.objects.filter(pk=job.pk).update(**state)
        results.append([mark(job), job.status, job.attempt, *stored(job)])
    assert results[0] == results[1]
    assert (results[0][0] == MoveResult.DONE) == (state == STATES[0])


def stored(job: Job) -> list[object]:
    """Return what a move changes."""
    row = Job.objects.get(pk=job.pk)
    age = timezone.now() - row.updated_at
    events = JobEvent.objects.filter(job=job).order_by("id")
    return [
        row.status,
        row.attempt,
        age < OLD,
        [(e.from_status, e.to_status, e.attempt, e.reason, timezone.now() - e.at < OLD) for e in events],
    ]


@pytest.mark.django_db
def test_only_a_pending_job_is_marked_as_queued() -> None:
    with pytest.raises(IllegalTransition):
        lifecycle.mark_queued(make_job(status=Status.QUEUED))


@pytest.mark.django_db
def test_during_an_outage_jobs_stay_pending(unreachable: list[int]) -> None:
    outage.record_failure(RedisConnectionError())
    job = make_job(created_at=timezone.now() - OLD)
    announcements.announce(job)
    assert (Job.objects.get(pk=job.pk).status, unreachable) == (Status.PENDING, [])


@pytest.mark.django_db
def test_a_job_whose_hint_failed_is_found_by_the_sweep(
    unreachable: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job()
    announcements.announce(job)
    assert (Job.objects.get(pk=job.pk).status, unreachable) == (Status.QUEUED, [1])
    monkeypatch.undo()
    sweep.sweep()
    assert hints() == 1


@pytest.mark.django_db
def test_an_announcement_does_not_wait_long_for_redis(settings: Any) -> None:
    job = make_job()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        redis.cache_clear()
        started = time.monotonic()
        announcements.announce(job)
        assert 1 < time.monotonic() - started < 4
    redis.cache_clear()
    outage.record_success()


@pytest.mark.django_db
def test_the_sweep_restores_a_hint_after_redis_is_emptied() -> None:
    for _ in range(3):
        announcements.announce(make_job())
    redis().flushdb()
    assert sweep.sweep()["hinted"] == 1
    assert sweep.sweep()["hinted"] == 0
    assert hints() == 1


@pytest.mark.django_db
def test_an_empty_queue_needs_no_hint() -> None:
    sweep.sweep()
    assert hints() == 0


@pytest.mark.django_db
def test_a_hint_is_passed_on_only_if_a_job_waits() -> None:
    announcements.pass_on()
    assert hints() == 0
    make_job()
    announcements.pass_on()
    assert hints() == 1


@pytest.mark.django_db
def test_a_hint_that_cannot_be_passed_on_is_left_to_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise DatabaseError

    monkeypatch.setattr(Job.objects, "filter", fail)
    announcements.pass_on()
    assert hints() == 0


@pytest.mark.usefixtures("empty_redis")
def test_each_hint_wakes_one_idle_slot() -> None:
    with IdleSlots(3) as slots:
        for left in (2, 1, 0):
            assert announcements.send_hint()
            assert slots.woken.acquire(timeout=10)
            wait_for_idle(left)
    assert hints() == 0


@pytest.mark.django_db
def test_the_sweep_wakes_an_idle_slot_for_each_waiting_job() -> None:
    with IdleSlots(3) as slots:
        for _ in range(2):
            make_job()
        assert announcements.replenish_hints() == 2
        assert slots.woken.acquire(timeout=10)
        assert slots.woken.acquire(timeout=10)
        assert (idle_slots(), hints()) == (1, 0)


@pytest.fixture
def quick_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make waits for hints short, also after errors."""
    monkeypatch.setattr(announcements, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(announcements, "RETRY_SECONDS", 0.01)
    yield
    # Its timeout depends on the shorter wait.
    announcements._waiting_client.cache_clear()
    announcements.outage.record_success()


@pytest.mark.usefixtures("empty_redis")
def test_an_outage_of_redis_ends_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "RETRY_SECONDS", 0.01)
    with IdleSlots(1) as slots:
        kill_waiting_clients()
        assert slots.woken.acquire(timeout=10)
    announcements.outage.record_success()


@pytest.mark.usefixtures("empty_redis", "quick_waits")
def test_a_slot_looks_for_a_job_without_a_hint() -> None:
    started = time.monotonic()
    announcements.wait_for_hint()
    assert 0.2 < time.monotonic() - started < TIMEOUT_SECONDS


@pytest.mark.usefixtures("empty_redis", "quick_waits")
def test_after_an_error_the_next_wait_opens_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    # BZPOPMIN fails, but does not close the connection.
    redis().set(announcements.HINTS, "not a sorted set")
    announcements.wait_for_hint()
    before = redis().info("stats")["total_connections_received"]
    for _ in range(2):
        announcements.wait_for_hint()
    assert redis().info("stats")["total_connections_received"] >= before + 2
    redis().delete(announcements.HINTS)
    announcements.send_hint()
    announcements.wait_for_hint()
    assert hints() == 0
    messages = [record.getMessage() for record in caplog.records]
    assert [text.partition(";")[0] for text in messages] == ["Redis failed", "Redis works again"]


@pytest.mark.usefixtures("empty_redis", "quick_waits")
def test_slots_pause_between_waits_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "RETRY_SECONDS", 0.1)
    redis().set(announcements.HINTS, "not a sorted set")
    started = time.monotonic()
    for _ in range(3):
        announcements.wait_for_hint()
    assert time.monotonic() - started >= 0.3
