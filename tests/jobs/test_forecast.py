"""When a waiting job will start, from a snapshot of the real queue."""

import json
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import lifecycle
from jobs.enums import Priority, Status
from jobs.errors import QueueFull
from jobs.lifecycle import Outcome
from jobs.models import Job, Run
from jobs.progress import Progress, Publisher
from jobs.queueing import claims, forecast, sweep
from jobs.queueing.forecast import Mark, estimated_start
from simservice.redis import worker_heartbeats
from simservice.redis.client import redis
from tests.conftest import Api
from tests.factories import PROFILE, make_job, make_running_job
from tests.jobs.simulators import LEAVE_REPORT, make_stand_in, run_beside

COPIES = """
    INSERT INTO jobs_job SELECT (jsonb_populate_record(job, jsonb_build_object(
        'id', job.id + n, 'share_token', n::text, 'priority', n %% 3))).*
    FROM jobs_job AS job, generate_series(1, %s) AS n WHERE job.id = %s
"""


def end(job: Job) -> None:
    """End a held job."""
    assert lifecycle.finish(job, Outcome(status=Status.FAILED, error_code="internal"))


def measure(seconds: float, **fields: Any) -> None:
    """Leave one measured run behind, and nothing running."""
    job = make_running_job(**fields)
    Run.objects.filter(job=job).update(wall_ms=int(seconds * 1000), ended_at=timezone.now())
    end(job)


def seconds_until(job: Job) -> int | None:
    """Take a fresh snapshot and return the job's estimate."""
    forecast.publish()
    estimate = estimated_start(job)
    return estimate.seconds if estimate else None


@pytest.fixture
def _one_slot(db: None) -> None:
    """One live slot, and runs that took ten seconds."""
    worker_heartbeats.report("sim@here", slots=1)
    measure(10)


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_jobs_wait_for_those_before_them_by_priority_and_then_by_submission() -> None:
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
        claimed = claims.claim("w")
        assert claimed
        if claimed.pk != last.pk:
            end(claimed)
    assert estimates == [50, 40, 30, 20, 10, 0]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_what_runs_counts_with_what_is_left_of_it() -> None:
    running, waiting = make_running_job(), make_job()
    assert seconds_until(waiting) == 10
    Job.objects.filter(pk=running.pk).update(started_at=timezone.now() - timedelta(seconds=7))
    assert seconds_until(waiting) == 3
    Job.objects.filter(pk=running.pk).update(started_at=timezone.now() - timedelta(seconds=70))
    assert seconds_until(waiting) == 0


@pytest.fixture
def _clock_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the forecast's clock."""
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)


def run_for(seconds: float, *, percent: float | None = None, **fields: Any) -> Job:
    """Make a job that has run for some time and, perhaps, shows how far it is."""
    job = make_running_job(**fields)
    Job.objects.filter(pk=job.pk).update(started_at=timezone.now() - timedelta(seconds=seconds))
    if percent is not None:
        Publisher(job).publish(Progress(percent=percent, stage=None))
    return job


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_clock_stands")
@pytest.mark.parametrize(
    ("elapsed", "percent", "left"),
    [(100, 20, 400), (1, 0.2, 499), (30, 99.9, 1), (9, 90, 1), (5, None, 5), (100, None, 0), (5, 0, 5)],
)
def test_a_running_job_needs_what_its_progress_says(elapsed: float, percent: float | None, left: int) -> None:
    run_for(elapsed, percent=percent, ceiling_runtime_seconds=1800)
    assert seconds_until(make_job()) == left


STEADY = """
for done in range(80):
    print(f"Generating Baseline: 1/1 [=>] {done}/80 ", end="\\r", flush=True)
    time.sleep(0.1)
"""


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_steady_simulators_end_is_foreseen(tmp_path: Path) -> None:
    worker_heartbeats.report("sim@here", slots=1)
    make_stand_in(tmp_path, STEADY + LEAVE_REPORT)
    foreseen: list[datetime] = []

    def look(_: Job) -> None:
        waiting = make_job()
        time.sleep(4)
        while len(foreseen) < 6:
            foreseen.append(timezone.now() + timedelta(seconds=seconds_until(waiting) or 0))
            time.sleep(0.5)

    run_beside(look)
    ended = Run.objects.get().ended_at
    assert ended is not None
    assert [round((at - ended).total_seconds(), 1) for at in foreseen] == pytest.approx([0.5] * 6, abs=2.5)


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_clock_stands")
@pytest.mark.parametrize(("elapsed", "percent", "left"), [(20, 1, 80), (98, 50, 2), (120, 10, 0)])
def test_no_job_is_expected_to_pass_its_ceiling(elapsed: float, percent: float, left: int) -> None:
    run_for(elapsed, percent=percent, ceiling_runtime_seconds=100)
    assert seconds_until(make_job()) == left


@pytest.mark.django_db
@pytest.mark.usefixtures("_clock_stands")
def test_past_runs_are_expected_to_end_at_the_ceiling_too() -> None:
    worker_heartbeats.report("sim@here", slots=1)
    measure(50)
    run_for(3, ceiling_runtime_seconds=20)
    assert seconds_until(make_job()) == 17


@pytest.mark.django_db
@pytest.mark.usefixtures("_clock_stands")
def test_progress_tells_without_any_measured_run() -> None:
    worker_heartbeats.report("sim@here", slots=2)
    run_for(10)
    run_for(30, percent=50)
    # One of the slots is known to be free in 30 s; when the other is, nobody knows.
    assert seconds_until(make_job()) == 30
    assert seconds_until(make_job()) is None


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_clock_stands")
def test_the_progress_of_a_lost_attempt_is_forgotten() -> None:
    lost = run_for(50, percent=10, ceiling_runtime_seconds=1800)
    assert lifecycle.hand_back(lost, reason="lost")
    assert claims.claim("w")
    assert seconds_until(make_job()) == 10


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_clock_stands")
def test_a_job_starts_when_the_first_slot_is_free() -> None:
    worker_heartbeats.report("sim@there", slots=2)
    for percent in (10, 25, 50):
        run_for(50, percent=percent, ceiling_runtime_seconds=1800)
    jobs = [make_job() for _ in range(4)]
    # The slots are free in 50, 150 and 450 s; each job ahead takes ten.
    assert [seconds_until(job) for job in jobs] == [50, 60, 70, 80]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_clock_stands")
def test_each_job_ahead_takes_a_slot_of_its_own() -> None:
    worker_heartbeats.report("sim@there", slots=2)
    for _ in range(3):
        run_for(10, percent=50)
    assert [seconds_until(make_job()) for _ in range(4)] == [10, 10, 10, 20]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_clock_stands")
def test_more_jobs_than_slots_are_held_for_a_moment() -> None:
    run_for(5, percent=50)
    run_for(8, percent=50)
    assert [seconds_until(make_job()) for _ in range(2)] == [5, 15]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_clock_stands")
def test_the_slots_share_a_long_queue() -> None:
    worker_heartbeats.report("sim@there", slots=1)
    run_for(40, percent=50)
    for _ in range(10):
        make_job()
    # Alone, the idle slot would do the hundred seconds ahead; from the fortieth on there are two.
    assert seconds_until(make_job()) == 70


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot", "_clock_stands")
@pytest.mark.parametrize("running", [1, 40])
def test_a_snapshot_costs_as_much_however_many_jobs_run(running: int) -> None:
    for _ in range(running):
        run_for(10, percent=50)
    asked = redis().info("commandstats").get("cmdstat_mget", {"calls": 0})["calls"]
    with CaptureQueriesContext(connection) as queries:
        forecast.take(slots=50)
    assert len(queries) == 4
    assert redis().info("commandstats")["cmdstat_mget"]["calls"] == asked + 1


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_more_slots_work_faster() -> None:
    jobs = [make_job() for _ in range(8)]
    worker_heartbeats.report("sim@there", slots=3)
    assert [seconds_until(job) for job in jobs[3:]] == [0, 10, 13, 15, 18]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_widths_are_measured_apart() -> None:
    measure(40, vcpus=4)
    jobs = [make_job(vcpus=width) for width in (1, 4, 2, 1)]
    # Nobody measured two vCPUs: the mean of all widths stands in.
    assert [seconds_until(job) for job in jobs] == [0, 10, 50, 75]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_a_job_newer_than_the_snapshot_comes_after_all_in_it() -> None:
    for priority in Priority:
        make_job(priority=priority)
    forecast.publish()
    estimates = [estimated_start(make_job(priority=priority)) for priority in Priority]
    assert [estimate and estimate.seconds for estimate in estimates] == [10, 20, 30]


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_an_estimate_asks_the_database_nothing() -> None:
    job = make_job()
    forecast.publish()
    with CaptureQueriesContext(connection) as queries:
        estimate = estimated_start(job)
    assert estimate is not None
    assert len(queries) == 0
    assert abs(time.time() - estimate.updated_at.timestamp()) < 5


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_with_redis_emptied_nothing_is_known() -> None:
    job = make_job()
    assert seconds_until(job) == 0
    redis().flushdb()
    assert estimated_start(job) is None


@pytest.mark.django_db
def test_without_a_live_worker_nothing_is_known() -> None:
    measure(10)
    worker_heartbeats.report("webhooks@here", slots=4)
    assert seconds_until(make_job()) is None


@pytest.mark.django_db
def test_without_a_measured_run_only_a_free_slot_is_known() -> None:
    worker_heartbeats.report("sim@here", slots=1)
    first, second = make_job(), make_job()
    assert (seconds_until(first), seconds_until(second)) == (0, None)


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
def test_the_sweep_publishes_and_the_status_tells(api: Api) -> None:
    answer = api.post("jobs", {"build": {"channel": "latest"}, "profile": {"text": PROFILE}})
    path = f"jobs/{answer.json()['id']}/status"
    assert api.get(path).json()["queue"]["estimatedStartSeconds"] is None
    sweep.sweep()
    told = api.get(path).json()["queue"]
    assert told["estimatedStartSeconds"] == 0
    assert told["estimatedStartUpdatedAt"] >= told["queuedAt"]
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
    assert 119 < snapshot.oldest_wait_seconds < 130


@pytest.mark.django_db
def test_a_queue_of_nothing() -> None:
    snapshot = forecast.take(slots=1)
    assert (snapshot.marks, set(snapshot.waiting.values()), snapshot.oldest_wait_seconds) == ([], {0}, 0)


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_slot")
@pytest.mark.parametrize("length", [999, 12_000])
def test_places_in_a_long_queue_are_found_from_few_marks(length: int) -> None:
    job = make_job()
    with connection.cursor() as cursor:
        cursor.execute(COPIES, [length, job.pk])
    snapshot = forecast.take(slots=1)
    assert len(snapshot.marks) <= forecast.MAX_MARKS + len(Priority)
    in_order = list(Job.objects.filter(status=Status.PENDING).order_by("priority", "id"))
    off = [abs(snapshot.ahead_of(job).jobs - place) for place, job in enumerate(in_order)]
    assert max(off) <= length // forecast.MAX_MARKS
    seconds = snapshot.seconds_until(snapshot.ahead_of(in_order[-1]))
    assert seconds == length * 10


@pytest.mark.django_db
def test_marks_are_read_from_the_index_alone() -> None:
    job = make_job()
    with connection.cursor() as cursor:
        cursor.execute(COPIES, [20_000, job.pk])
        cursor.execute("ANALYZE jobs_job")
        # Only a vacuumed table makes it the cheapest way, and a test's transaction cannot vacuum.
        cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute("EXPLAIN " + forecast.MARKS, [[1.0], 1.0, 1000])
        assert "Index Only Scan using job_waiting" in str(cursor.fetchall())


@pytest.mark.django_db
@pytest.mark.parametrize(("limit", "refused"), [(3, True), (4, False), (0, False)])
def test_a_full_queue_takes_no_more(settings: Any, limit: int, refused: bool) -> None:  # noqa: FBT001
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
def test_a_submission_to_a_full_queue_is_answered_with_503(settings: Any, api: Api) -> None:
    settings.MAX_QUEUE_LENGTH = 1
    make_job()
    forecast.publish()
    answer = api.post("jobs", {"build": {"channel": "latest"}, "profile": {"text": PROFILE}})
    assert (answer.status_code, answer.json()["code"], answer["Retry-After"]) == (503, "queue_unavailable", "10")
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_a_snapshot_survives_its_way_through_redis() -> None:
    make_job()
    worker_heartbeats.report("sim@here", slots=2)
    forecast.publish()
    snapshot = forecast.current()
    assert snapshot is not None
    assert isinstance(snapshot.marks[0], Mark)
    assert json.loads(str(redis().get(forecast.KEY)))["slots"] == 2
