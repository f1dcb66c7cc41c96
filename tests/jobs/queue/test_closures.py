"""Paused lanes and drained machines: what claims, the forecast and messages make of them."""

import pytest
from pytest_django import Settings

from clients.audit import COMMAND_LINE
from jobs.enums import Priority
from jobs.lifecycle import job_moves, shard_moves
from jobs.models import Closure, Job
from jobs.queue import announcements, closures, forecast, sweep
from simservice import shutdown, worker_heartbeats
from tests.concurrency import at_once
from tests.factories import make_account, make_client, make_job
from tests.jobs.lanes import messages
from tests.jobs.plans import copy_job, plans_of, reindex_jobs
from tests.jobs.shards.sharded_jobs import claim, make_stage

pytestmark = pytest.mark.django_db
WORKER = "here:1:0000abcd:5"


def pause(lane: Priority) -> None:
    assert closures.begin(lane=lane, by=COMMAND_LINE)


def claimed() -> Job | None:
    return job_moves.claim_job(WORKER)


def test_jobs_of_a_paused_lane_are_not_claimed() -> None:
    client = make_client(make_account())
    high, background = (make_job(client, priority=lane) for lane in (Priority.HIGH, Priority.BACKGROUND))
    pause(Priority.HIGH)
    assert (claimed(), claimed()) == (background, None)
    assert closures.end(lane=Priority.HIGH, by=COMMAND_LINE)
    assert claimed() == high


def test_other_slots_help_the_running_jobs_of_a_paused_lane() -> None:
    stage = make_stage()
    pause(Priority(stage.priority))
    assert shard_moves.find_open_stage([]) == stage.pk
    assert claim(stage, worker=WORKER) is not None


def test_a_shard_does_not_wait_for_the_jobs_of_a_paused_lane() -> None:
    stage = make_stage()
    make_job(priority=stage.priority)
    assert claim(stage, worker=WORKER) is None
    pause(Priority(stage.priority))
    assert claim(stage, worker=WORKER) is not None


def test_a_drained_machine_claims_neither_jobs_nor_shards() -> None:
    stage = make_stage()
    assert closures.begin(host="here", by=COMMAND_LINE)
    assert claim(stage, worker=WORKER) is None
    job = make_job(priority=Priority.HIGH)
    assert claimed() is None
    assert claim(stage, worker=WORKER) is None
    assert job_moves.claim_job("here.example:1:0000abcd:5") == job
    assert closures.end(host="here", by=COMMAND_LINE)
    assert claim(stage, worker=WORKER) is not None


def test_the_conductor_of_a_drained_machine_claims_its_own_shards() -> None:
    """Whether one still fits into the time of the drain is decided by the conductor."""
    stage = make_stage()
    assert closures.begin(host="here", by=COMMAND_LINE)
    assert claim(stage, conducts=True, worker=WORKER) is not None


def test_a_claim_does_not_read_the_jobs_of_a_paused_lane() -> None:
    job = make_job(priority=Priority.STANDARD)
    copy_job(job.pk, 2_000, changes="jsonb_build_object('priority', 1)")
    background = make_job(job.client, priority=Priority.BACKGROUND)
    pause(Priority.STANDARD)
    reindex_jobs()
    (plan,) = plans_of(claimed, table="jobs_job")
    assert "job_claimable" in plan.indexes
    assert plan.pages <= 50
    assert Job.objects.get(pk=background.pk).status == "starting"


@pytest.mark.parametrize("target", [{"lane": Priority.HIGH}, {"host": "here"}])
def test_each_change_is_recorded_once(target: dict[str, Priority | str]) -> None:
    assert closures.begin(**target, by=COMMAND_LINE, reason="upgrade")  # type: ignore[arg-type]
    assert not closures.begin(**target, by=COMMAND_LINE, reason="again")  # type: ignore[arg-type]
    row = Closure.objects.get()
    assert (row.reason, row.began_by, row.ended_at) == ("upgrade", COMMAND_LINE.label, None)
    assert closures.end(**target, by=COMMAND_LINE)  # type: ignore[arg-type]
    assert not closures.end(**target, by=COMMAND_LINE)  # type: ignore[arg-type]
    row.refresh_from_db()
    assert (row.ended_by, row.ended_at is not None) == (COMMAND_LINE.label, True)


@pytest.mark.django_db(transaction=True)
def test_two_operators_drain_a_machine_at_once() -> None:
    results: list[bool] = []
    at_once(2, lambda: results.append(closures.begin(host="here", by=COMMAND_LINE)))
    assert sorted(results) == [False, True]
    assert closures.current().count() == 1


@pytest.mark.parametrize("host", ["", "a b", "a:1", "a\n", "x" * 254, "<script>", "ü"])
def test_a_host_has_the_characters_of_a_host_name(host: str) -> None:
    with pytest.raises(closures.InvalidHost):
        closures.begin(host=host, by=COMMAND_LINE)


def test_a_paused_lane_has_no_expected_start_and_delays_no_other_lane() -> None:
    client = make_client(make_account())
    paused = [make_job(client, priority=Priority.HIGH) for _ in range(3)]
    standard = [make_job(client, priority=Priority.STANDARD) for _ in range(2)]
    worker_heartbeats.report("sim@here-1", slots=1)
    pause(Priority.HIGH)
    sweep.sweep()
    snapshot = forecast.current()
    assert snapshot is not None
    assert [snapshot.position_of(job).ahead for job in standard] == [0, 1]
    assert snapshot.position_of(standard[0]).seconds == 0
    assert (snapshot.position_of(paused[0]).seconds, forecast.estimated_start(paused[0])) == (None, None)
    assert snapshot.position_of_new(Priority.HIGH).seconds is None
    assert snapshot.position_of_new(Priority.STANDARD).ahead == 2


def test_an_idle_sweep_publishes_paused_lanes() -> None:
    pause(Priority.BACKGROUND)
    sweep.sweep()
    snapshot = forecast.current()
    assert snapshot is not None
    assert snapshot.paused == [Priority.BACKGROUND]


def test_paused_lanes_get_no_messages() -> None:
    client = make_client(make_account())
    for lane in Priority:
        make_job(client, priority=lane)
    pause(Priority.HIGH)
    announcements.replenish()
    assert messages() == {"sim.standard": 1, "sim.background": 1}
    announcements.pass_on()
    assert messages() == {"sim.standard": 2, "sim.background": 1}
    for lane in (Priority.STANDARD, Priority.BACKGROUND):
        pause(lane)
    assert announcements.replenish() == 0


@pytest.mark.usefixtures("empty_redis")
def test_heartbeats_learn_which_machines_are_drained() -> None:
    assert worker_heartbeats.report("sim@here-1") is None
    sweep.sweep()
    assert worker_heartbeats.report("sim@here-1") == frozenset()
    for host in ("here", "far-away.example"):
        closures.begin(host=host, by=COMMAND_LINE)
    sweep.sweep()
    assert worker_heartbeats.report("sim@here-1") == frozenset({"here", "far-away.example"})
    assert {worker.host for worker in worker_heartbeats.simulation_workers()} == {"here"}


def test_a_drain_gives_running_jobs_the_time_of_a_shutdown(settings: Settings) -> None:
    settings.STOP_SECONDS = 100
    stop = shutdown.Stop()
    stop.set_drained(True)
    began_at = stop.began_at
    assert (stop.is_drained, stop.is_requested, stop.has_time()) == (True, False, True)
    settings.STOP_SECONDS = 0
    stop.set_drained(True)
    assert (stop.began_at, stop.has_time()) == (began_at, False)
    stop.set_drained(False)
    assert (stop.is_drained, stop.has_time()) == (False, True)


def test_a_shutdown_during_a_drain_gives_no_more_time(settings: Settings) -> None:
    settings.STOP_SECONDS = 100
    stop = shutdown.Stop()
    stop.set_drained(True)
    stop.request(at_once=True)
    assert not stop.has_time()
    stop.set_drained(False)
    assert (stop.is_requested, stop.has_time()) == (True, False)
