"""The fee for high priority, by free slots and waiting jobs."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from billing.models import Plan
from jobs.enums import Priority
from jobs.models import Job
from jobs.queue import forecast
from jobs.submission.priority_fee import buys_earlier_start
from simservice import worker_heartbeats
from simservice.redis import client
from tests.conftest import Api
from tests.factories import make_job, make_running_job, start_attempt
from tests.jobs.api.bodies import BODY
from tests.jobs.queue_states import help_with

pytestmark = pytest.mark.django_db
FEE = 320
# F free slots, A waiting high jobs, O waiting standard jobs: due if O >= 1 and F <= A + O.
TABLE = [
    (free, high, standard, standard >= 1 and free <= high + standard)
    for free in range(5)
    for high in range(4)
    for standard in range(4)
]
# The edges of the rule, written by hand.
EDGES = {
    (0, 0, 0): False, (0, 0, 1): True, (0, 1, 0): False, (0, 3, 0): False,
    (1, 0, 0): False, (1, 0, 1): True, (1, 1, 0): False, (1, 1, 1): True,
    (2, 0, 1): False, (2, 0, 2): True, (2, 1, 1): True, (2, 2, 0): False,
    (3, 0, 2): False, (3, 0, 3): True, (3, 1, 1): False, (3, 1, 2): True, (3, 2, 1): True,
    (4, 0, 3): False, (4, 3, 1): True, (4, 2, 1): False, (4, 3, 0): False,
}  # fmt: skip


def add_waiting_jobs(lane: Priority, count: int) -> None:
    for _ in range(count):
        make_job(priority=lane)


def fee(api: Api, priority: str = "high") -> int:
    """Submit a job and return the fee in the response."""
    response = api.post("jobs", BODY | {"priority": priority, "runtime": {"maxCredits": 32}})
    assert response.status_code == 200
    charged: int = response.json()["runtime"]["priorityFeeCredits"]
    return charged


@pytest.mark.parametrize(("free", "high", "standard", "due"), TABLE)
def test_the_rule_holds_for_every_case(free: int, high: int, standard: int, due: bool) -> None:  # noqa: FBT001
    assert EDGES.get((free, high, standard), due) == due
    add_waiting_jobs(Priority.HIGH, high)
    add_waiting_jobs(Priority.STANDARD, standard)
    add_waiting_jobs(Priority.BACKGROUND, 1)
    make_running_job()
    assert buys_earlier_start(live_slots=free + 1) == due


@pytest.mark.parametrize(("free", "high", "standard"), EDGES)
def test_a_submission_is_charged_by_the_rule(api: Api, free: int, high: int, standard: int) -> None:
    add_waiting_jobs(Priority.HIGH, high)
    add_waiting_jobs(Priority.STANDARD, standard)
    worker_heartbeats.report("sim@here", slots=free)
    assert fee(api) == EDGES[free, high, standard] * FEE


def test_starting_and_running_jobs_take_slots() -> None:
    assert start_attempt(make_job(), worker="worker-1")
    make_running_job()
    make_job()
    assert buys_earlier_start(live_slots=3)
    assert not buys_earlier_start(live_slots=4)


def test_slots_that_help_another_job_are_free() -> None:
    """A waiting job takes such a slot as soon as its shard ends, so shards never make the fee due."""
    help_with(make_running_job(parallel_slots=4), helpers=3)
    make_job()
    assert not buys_earlier_start(live_slots=4)
    assert buys_earlier_start(live_slots=2)


def test_jobs_of_dead_workers_take_no_slots() -> None:
    lost = make_running_job()
    make_job()
    Job.objects.filter(pk=lost.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert not buys_earlier_start(live_slots=2)


def test_more_jobs_than_slots_leave_no_slot_free() -> None:
    make_running_job()
    make_running_job()
    make_job()
    assert buys_earlier_start(live_slots=1)


def test_without_a_live_worker_no_slot_is_free(api: Api) -> None:
    worker_heartbeats.report("webhooks@here", slots=4)
    make_job()
    assert fee(api) == FEE


def test_without_redis_no_slot_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    worker_heartbeats.report("sim@here", slots=9)
    make_job()
    monkeypatch.setattr(client.outage, "may_try", lambda: False)
    assert forecast.live_slots() is None
    assert buys_earlier_start(live_slots=forecast.live_slots() or 0)


def test_slots_of_several_workers_add_up(api: Api) -> None:
    worker_heartbeats.report("sim@here", slots=1)
    worker_heartbeats.report("sim@there", slots=2)
    add_waiting_jobs(Priority.STANDARD, 2)
    assert fee(api) == 0
    assert fee(api) == FEE


def test_each_high_job_counts_those_before_it(api: Api) -> None:
    worker_heartbeats.report("sim@here", slots=3)
    make_job()
    assert [fee(api) for _ in range(4)] == [0, 0, FEE, FEE]


def test_a_plan_without_a_fee_has_none(api: Api) -> None:
    Plan.objects.update(high_priority_fee_credits=0)
    make_job()
    assert fee(api) == 0


@pytest.mark.parametrize("priority", ["standard", "background"])
def test_lower_priorities_pay_no_fee_and_take_no_query(
    api: Api, priority: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    fee(api, priority)
    make_job()
    with CaptureQueriesContext(connection) as lower:
        assert fee(api, priority) == 0
    with CaptureQueriesContext(connection) as high:
        fee(api)
    reads = [[query["sql"] for query in each if query["sql"].startswith("SELECT COUNT")] for each in (lower, high)]
    assert (len(lower), list(map(len, reads))) == (6, [0, 1])


CROWD = """
    INSERT INTO jobs_job SELECT copy.*
    FROM jobs_job AS job, generate_series(1, %s) AS n, jsonb_populate_record(job, jsonb_build_object(
        'id', job.id + n, 'share_token', n::text, 'priority', CASE WHEN n %% 2 = 0 THEN 2 ELSE 1 END)) AS copy
    WHERE job.id = %s
"""


@pytest.mark.parametrize("slots", [1, 8])
def test_a_long_queue_is_read_only_up_to_the_slots(slots: int) -> None:
    job = make_job(priority=Priority.BACKGROUND)
    with connection.cursor() as cursor:
        cursor.execute(CROWD, [5_000, job.pk])
        cursor.execute("ANALYZE jobs_job")
    with CaptureQueriesContext(connection) as captured:
        assert buys_earlier_start(live_slots=slots)
    claimed, waiting = (query["sql"] for query in captured)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT TEXT) {waiting}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute(f"EXPLAIN {claimed}")
        assert "job_held" in str(cursor.fetchall())
    assert "Backward using job_claimable" in plan
    assert re.search(rf"rows={slots}(\.00)? loops", plan), plan
