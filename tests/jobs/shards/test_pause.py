"""The shards of a job that is paused."""

from pathlib import Path

import pytest

from billing import ledger
from billing.models import Hold
from clients.audit import SYSTEM
from jobs.enums import ReturnCause
from jobs.execution import attempt
from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.cancellation import cancel
from jobs.models import Job, Run, Shard, ShardedStage
from jobs.queue import pausing
from tests.factories import make_running_job
from tests.jobs import simulators
from tests.jobs.shards.sharded_jobs import claim, claimed, end, make_stage, started
from tests.jobs.shards.sharded_runs import assert_nothing_left, during, make_simulator, results_of, submit
from tests.jobs.simulators import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def pause_requested(stage: ShardedStage) -> Job:
    """Return the stage's job after a request to pause it."""
    return pausing.pause(stage.job, by=SYSTEM)


def test_no_shard_of_a_job_starts_that_is_to_be_paused() -> None:
    stage = make_stage()
    helped = claimed(stage)
    pause_requested(stage)
    assert claim(stage) is None
    assert claim(stage, conducts=True) is None
    assert shard_moves.renew_shard(helped, wanted_ms=0) is not None


def test_a_helper_of_a_paused_job_loses_its_shard() -> None:
    stage = make_stage()
    shard, run_id = started(stage)
    assert job_moves.requeue(pause_requested(stage), reason="paused", cause=ReturnCause.RETURNED)
    assert shard_moves.renew_shard(shard, wanted_ms=0) is None
    assert not end(shard, run_id)
    assert Run.objects.get(pk=run_id).stopped_for == "lost"
    waiting = Shard.objects.get(pk=shard.shard_id)
    assert (waiting.status, waiting.seat, waiting.losses) == ("waiting", None, 0)
    assert ShardedStage.objects.get(pk=stage.pk).allotted_ms == 0


def test_a_helper_loses_its_shard_although_the_job_is_resumed_at_once() -> None:
    """Its allowance was paid for by credits that the pause returned."""
    stage = make_stage()
    shard, _ = started(stage)
    assert job_moves.requeue(pause_requested(stage), reason="paused", cause=ReturnCause.RETURNED)
    pausing.resume(Job.objects.get(pk=stage.job_id), by=SYSTEM)
    assert shard_moves.renew_shard(shard, wanted_ms=0) is None


def test_a_pause_keeps_the_price_of_finished_shards() -> None:
    stage = make_stage(make_running_job(parallel_slots=3, credits_per_second=32, priority_fee_credits=10))
    for billed_ms in (3000, 1500):
        end(*started(stage), billed_ms=billed_ms)
    started(stage)
    assert job_moves.requeue(pause_requested(stage), reason="paused", cause=ReturnCause.RETURNED)
    assert Hold.objects.get(pk=stage.job_id).credits == 5 * 32 + 10


def test_the_finished_shards_of_a_paused_job_are_billed_when_it_is_cancelled() -> None:
    stage = make_stage(make_running_job(parallel_slots=3, credits_per_second=32, priority_fee_credits=10))
    for billed_ms in (3000, 1500):
        end(*started(stage), billed_ms=billed_ms)
    assert job_moves.requeue(pause_requested(stage), reason="paused", cause=ReturnCause.RETURNED)
    cancel(stage.job, by=SYSTEM)
    ended = Job.objects.get(pk=stage.job_id)
    assert (ended.status, ended.sim_duration_ms, ended.credits_consumed) == ("cancelled", 4500, 5 * 32 + 10)
    assert "finished shards are billed" in str(ended.status_reason)
    assert list(ledger.verify()) == []


def test_a_waiting_job_without_finished_shards_is_cancelled_for_free() -> None:
    stage = make_stage(make_running_job(parallel_slots=3, priority_fee_credits=10))
    started(stage)
    assert job_moves.requeue(stage.job, reason="returned", cause=ReturnCause.RETURNED)
    cancel(stage.job, by=SYSTEM)
    ended = Job.objects.get(pk=stage.job_id)
    assert (ended.sim_duration_ms, ended.credits_consumed) == (None, 0)
    assert ended.status_reason == job_moves.CANCELLED_WAITING.reason


def test_a_conducted_job_is_paused_and_completes_after_its_resume(tmp_path: Path) -> None:
    make_simulator(tmp_path, seconds=0.3)
    job = submit()

    def pause() -> None:
        wait_until(lambda: Run.objects.filter(shard__gt=0, ended_at=None).count() == 2)
        pausing.pause(job, by=SYSTEM)

    paused = during(job, pause, helpers=1)
    assert paused.is_paused
    assert not Run.objects.filter(ended_at=None).exists()
    pausing.resume(paused, by=SYSTEM)
    attempt.execute(simulators.claim())
    ended = Job.objects.get(pk=job.pk)
    assert (ended.status, len(results_of(ended))) == ("completed", 12)
    assert_nothing_left(ended)
    assert list(ledger.verify()) == []
