"""Estimated start of waiting jobs, from a snapshot of the queue."""

import json
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.enums import Priority, ShardStatus, Status
from jobs.errors import QueueFull
from jobs.lifecycle import job_moves
from jobs.models import Job, Run, Shard, ShardedStage
from jobs.queue import forecast, position_samples, sweep
from jobs.queue.forecast import estimated_start
from jobs.queue.position_samples import PositionSample
from simservice import worker_heartbeats
from simservice.redis.client import redis
from tests.conftest import Api
from tests.factories import PROFILE, make_job, make_running_job
from tests.jobs.plans import forget_statistics
from tests.jobs.queue_states import (
    COPIES,
    _frozen_clock,
    _one_slot,
    cut,
    end,
    help_with,
    measure,
    run_for,
    run_shard,
    seconds_until,
)
from tests.jobs.simulators import LEAVE_REPORT, make_stand_in, run_with_action
from tests.redis_commands import redis_commands

__all__ = ["_frozen_clock", "_one_slot"]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_jobs_wait_by_priority_and_then_by_submission() -> None:
    lanes = (Priority.BACKGROUND, Priority.STANDARD, Priority.HIGH, Priority.STANDARD)
    jobs = [make_job(priority=lane) for lane in lanes]
    assert [seconds_until(job) for job in jobs] == [30, 10, 0, 20]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_the_estimate_falls_to_zero_as_the_queue_drains() -> None:
    jobs = [make_job() for _ in range(6)]
    last, estimates = jobs[-1], []
    for _ in jobs:
        estimates.append(seconds_until(last))
        claimed = job_moves.claim_job("w")
        assert claimed
        if claimed.pk != last.pk:
            end(claimed)
    assert estimates == [50, 40, 30, 20, 10, 0]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_a_running_job_counts_with_its_remaining_time() -> None:
    running, waiting = make_running_job(), make_job()
    assert seconds_until(waiting) == 10
    Job.objects.filter(pk=running.pk).update(started_at=timezone.now() - timedelta(seconds=7))
    assert seconds_until(waiting) == 3
    Job.objects.filter(pk=running.pk).update(started_at=timezone.now() - timedelta(seconds=70))
    assert seconds_until(waiting) == 0


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_frozen_clock")
@pytest.mark.parametrize(
    ("elapsed", "percent", "remaining"),
    [(100, 20, 400), (1, 0.2, 499), (30, 99.9, 1), (9, 90, 1), (5, None, 5), (100, None, 0), (5, 0, 5)],
)
def test_remaining_time_follows_from_progress(elapsed: float, percent: float | None, remaining: int) -> None:
    run_for(elapsed, percent=percent, ceiling_runtime_seconds=1800)
    assert seconds_until(make_job()) == remaining


STEADY = """
for done in range(80):
    print(f"Generating Baseline: 1/1 [=>] {done}/80 ", end="\\r", flush=True)
    time.sleep(0.1)
"""


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_steady_simulator_is_estimated(tmp_path: Path) -> None:
    worker_heartbeats.report("sim@here", slots=1)
    make_stand_in(tmp_path, STEADY + LEAVE_REPORT)
    estimates: list[datetime] = []

    def sample(_: Job) -> None:
        waiting = make_job()
        time.sleep(4)
        while len(estimates) < 6:
            estimates.append(timezone.now() + timedelta(seconds=seconds_until(waiting) or 0))
            time.sleep(0.5)

    run_with_action(sample)
    ended_at = Run.objects.get().ended_at
    assert ended_at is not None
    assert [round((at - ended_at).total_seconds(), 1) for at in estimates] == pytest.approx([0.5] * 6, abs=2.5)


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_frozen_clock")
@pytest.mark.parametrize(("elapsed", "percent", "remaining"), [(20, 1, 80), (98, 50, 2), (120, 10, 0)])
def test_no_estimate_exceeds_the_ceiling_of_a_job(elapsed: float, percent: float, remaining: int) -> None:
    run_for(elapsed, percent=percent, ceiling_runtime_seconds=100)
    assert seconds_until(make_job()) == remaining


@pytest.mark.django_db
@pytest.mark.usefixtures("_frozen_clock")
def test_averages_of_past_runs_are_limited_to_the_ceiling() -> None:
    worker_heartbeats.report("sim@here", slots=1)
    measure(50)
    run_for(3, ceiling_runtime_seconds=20)
    assert seconds_until(make_job()) == 17


@pytest.mark.django_db
@pytest.mark.usefixtures("_frozen_clock")
def test_progress_gives_an_estimate_without_past_runs() -> None:
    worker_heartbeats.report("sim@here", slots=2)
    run_for(10)
    run_for(30, percent=50)
    # One slot will be free in 30 s; the other at an unknown time.
    assert seconds_until(make_job()) == 30
    assert seconds_until(make_job()) is None


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_frozen_clock")
def test_the_progress_of_a_lost_attempt_is_ignored() -> None:
    lost = run_for(50, percent=10, ceiling_runtime_seconds=1800)
    assert job_moves.requeue(lost, reason="lost")
    assert job_moves.claim_job("w")
    assert seconds_until(make_job()) == 10


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_frozen_clock")
def test_a_job_starts_in_the_first_free_slot() -> None:
    worker_heartbeats.report("sim@there", slots=2)
    for percent in (10, 25, 50):
        run_for(50, percent=percent, ceiling_runtime_seconds=1800)
    jobs = [make_job() for _ in range(4)]
    # The slots become free in 50, 150 and 450 s; each job takes ten.
    assert [seconds_until(job) for job in jobs] == [50, 60, 70, 80]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_frozen_clock")
def test_each_job_ahead_takes_one_slot() -> None:
    worker_heartbeats.report("sim@there", slots=2)
    for _ in range(3):
        run_for(10, percent=50)
    assert [seconds_until(make_job()) for _ in range(4)] == [10, 10, 10, 20]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_frozen_clock")
def test_more_running_jobs_than_slots_are_tolerated() -> None:
    run_for(5, percent=50)
    run_for(8, percent=50)
    assert [seconds_until(make_job()) for _ in range(2)] == [5, 15]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_frozen_clock")
def test_the_slots_share_a_long_queue() -> None:
    worker_heartbeats.report("sim@there", slots=1)
    run_for(40, percent=50)
    for _ in range(10):
        make_job()
    # The idle slot works alone for 40 s of the 100 s ahead; then two slots share the rest.
    assert seconds_until(make_job()) == 70


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_frozen_clock")
@pytest.mark.parametrize("running", [1, 40])
def test_snapshot_queries_do_not_grow_with_running_jobs(running: int) -> None:
    for _ in range(running):
        run_for(10, percent=50)
    with CaptureQueriesContext(connection) as queries, redis_commands() as commands:
        forecast.take(slots=50)
    assert len(queries) == 4
    assert commands.count("MGET") == 1
    assert "GET" not in commands


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_frozen_clock")
@pytest.mark.parametrize(("elapsed", "percent", "free_in"), [(40, 50, [0, 5, 5, 40]), (18, 90, [0, 2, 2, 2])])
def test_helpers_are_busy_until_their_shards_end(elapsed: float, percent: float, free_in: list[float]) -> None:
    help_with(run_for(elapsed, percent=percent, parallel_slots=4), helpers=2)
    assert forecast.take(slots=4).free_in == free_in


@pytest.mark.django_db
def test_helpers_of_a_job_of_unknown_length_are_soon_free() -> None:
    help_with(run_for(1, parallel_slots=4), helpers=2)
    assert forecast.take(slots=4).free_in == [0, 5, 5]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_frozen_clock")
def test_only_running_shards_of_the_attempt_have_helpers() -> None:
    cut(run_for(10, percent=50, parallel_slots=4))
    lost = run_for(0, parallel_slots=4)
    help_with(lost, helpers=2)
    Job.objects.filter(pk=lost.pk).update(attempt=2)
    ended = make_running_job(parallel_slots=4)
    help_with(ended, helpers=2)
    end(ended)
    returned = run_shard(cut(run_for(10, percent=50, parallel_slots=4)), seat=1)
    free = {"seat": None, "worker": "", "lease_expires_at": None, "allowance_ms": 0}
    Shard.objects.filter(pk=returned.pk).update(status=ShardStatus.WAITING, **free)
    assert forecast.take(slots=5).free_in == [0, 0, 10, 10, 10]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_frozen_clock")
@pytest.mark.parametrize("helpers", [0, 1, 40])
def test_a_job_with_slots_adds_one_query(helpers: int) -> None:
    run_for(10, percent=50)
    help_with(run_for(10, percent=50, parallel_slots=64), helpers=helpers)
    with CaptureQueriesContext(connection) as queries:
        forecast.take(slots=50)
    assert len(queries) == 5


@pytest.mark.django_db
def test_helpers_are_found_with_an_index_of_running_shards() -> None:
    help_with(make_running_job(parallel_slots=4), helpers=2)
    forget_statistics(Job, ShardedStage, Shard)
    with connection.cursor() as cursor:
        # PostgreSQL would scan so few rows sequentially.
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert "shard_seat_unique" in forecast.helpers().explain()


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_more_slots_shorten_the_wait() -> None:
    jobs = [make_job() for _ in range(8)]
    worker_heartbeats.report("sim@there", slots=3)
    assert [seconds_until(job) for job in jobs[3:]] == [0, 10, 13, 15, 18]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_runs_are_measured_per_number_of_vcpus() -> None:
    measure(40, vcpus=4)
    jobs = [make_job(vcpus=width) for width in (1, 4, 2, 1)]
    # Without runs on two vCPUs, the mean of all runs is used.
    assert [seconds_until(job) for job in jobs] == [0, 10, 50, 75]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_a_job_newer_than_the_snapshot_comes_last() -> None:
    for priority in Priority:
        make_job(priority=priority)
    forecast.publish()
    estimates = [estimated_start(make_job(priority=priority)) for priority in Priority]
    assert [estimate and estimate.seconds for estimate in estimates] == [10, 20, 30]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_an_estimate_takes_no_database_query() -> None:
    job = make_job()
    forecast.publish()
    with CaptureQueriesContext(connection) as queries:
        estimate = estimated_start(job)
    assert estimate is not None
    assert len(queries) == 0
    assert abs(time.time() - estimate.updated_at.timestamp()) < 60


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_a_running_job_has_no_estimated_start() -> None:
    running = make_running_job()
    forecast.publish()
    assert estimated_start(make_job()) is not None
    assert estimated_start(running) is None


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_there_is_no_estimate_when_redis_is_empty() -> None:
    job = make_job()
    assert seconds_until(job) == 0
    redis().flushdb()
    assert estimated_start(job) is None


@pytest.mark.django_db
def test_there_is_no_estimate_without_a_live_worker() -> None:
    measure(10)
    worker_heartbeats.report("webhooks@here", slots=4)
    assert seconds_until(make_job()) is None


@pytest.mark.django_db
def test_without_past_runs_only_free_slots_give_an_estimate() -> None:
    worker_heartbeats.report("sim@here", slots=1)
    first, second = make_job(), make_job()
    assert (seconds_until(first), seconds_until(second)) == (0, None)


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_the_sweep_publishes_the_estimate_for_the_status(api: Api) -> None:
    response = api.post("jobs", {"build": {"channel": "latest"}, "profile": {"text": PROFILE}})
    path = f"jobs/{response.json()['id']}/status"
    assert api.get(path).json()["queue"]["estimatedStartSeconds"] is None
    sweep.sweep()
    queue = api.get(path).json()["queue"]
    assert queue["estimatedStartSeconds"] == 0
    assert queue["estimatedStartUpdatedAt"] >= queue["queuedAt"]
    assert 0 < redis().ttl(forecast.KEY) <= 10


@pytest.mark.django_db
def test_a_snapshot_counts_the_lanes_and_the_oldest_wait() -> None:
    make_job(priority=Priority.BACKGROUND, created_at=timezone.now() - timedelta(minutes=2))
    make_job(priority=Priority.BACKGROUND)
    make_job(priority=Priority.HIGH)
    make_running_job()
    snapshot = forecast.take(slots=3)
    assert snapshot.waiting == {"high": 1, "standard": 0, "background": 2}
    assert (snapshot.free_in, snapshot.slots) == ([0, 0], 3)
    assert 119 < snapshot.oldest_wait_seconds < 170


@pytest.mark.django_db
def test_an_empty_queue_has_an_empty_snapshot() -> None:
    snapshot = forecast.take(slots=1)
    assert (snapshot.marks, set(snapshot.waiting.values()), snapshot.oldest_wait_seconds) == ([], {0}, 0)


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
@pytest.mark.parametrize("length", [999, 12_000])
def test_places_in_a_long_queue_are_derived_from_few_marks(length: int) -> None:
    job = make_job()
    with connection.cursor() as cursor:
        cursor.execute(COPIES, [length, job.pk])
    snapshot = forecast.take(slots=1)
    assert len(snapshot.marks) <= position_samples.MAX_MARKS + len(Priority)
    in_order = list(Job.objects.filter(status=Status.PENDING).order_by("priority", "id"))
    deviations = [abs(snapshot.ahead_of(job).jobs - position) for position, job in enumerate(in_order)]
    assert max(deviations) <= length // position_samples.MAX_MARKS
    seconds = snapshot.seconds_until(snapshot.ahead_of(in_order[-1]))
    assert seconds == length * 10


@pytest.mark.django_db
@pytest.mark.parametrize(("limit", "refused"), [(3, True), (4, False), (0, False)])
def test_a_full_queue_rejects_submissions(settings: Any, limit: int, refused: bool) -> None:  # noqa: FBT001
    settings.MAX_QUEUE_LENGTH = limit
    for priority in Priority:
        make_job(priority=priority)
    forecast.require_open_queue()
    forecast.publish()
    if not refused:
        return forecast.require_open_queue()
    with pytest.raises(QueueFull):
        forecast.require_open_queue()
    return None


@pytest.mark.django_db
def test_a_submission_to_a_full_queue_returns_503(settings: Any, api: Api) -> None:
    settings.MAX_QUEUE_LENGTH = 1
    make_job()
    forecast.publish()
    response = api.post("jobs", {"build": {"channel": "latest"}, "profile": {"text": PROFILE}})
    assert (response.status_code, response.json()["code"], response["Retry-After"]) == (
        503,
        "queue_unavailable",
        "10",
    )
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_a_snapshot_can_be_read_back_from_redis() -> None:
    make_job()
    worker_heartbeats.report("sim@here", slots=2)
    forecast.publish()
    snapshot = forecast.current()
    assert snapshot is not None
    assert isinstance(snapshot.marks[0], PositionSample)
    assert json.loads(str(redis().get(forecast.KEY)))["slots"] == 2
