"""Moves of shards: their guards, their funds, and concurrent claims."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.db.models.functions import Now

from jobs.enums import Priority, Status
from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import Job, Run, Shard, ShardedStage
from jobs.queue import claims, executables
from tests.concurrency import at_once, while_locked
from tests.factories import make_job
from tests.jobs.shards.sharded_jobs import (
    SLICE_MS,
    allotted,
    claim,
    claimed,
    end,
    expire,
    make_stage,
    row,
    run_of,
    start,
    started,
)
from tests.statements import traffic

pytestmark = pytest.mark.django_db(transaction=True)


def requeue(stage: ShardedStage) -> None:
    assert job_moves.requeue(Job.objects.get(pk=stage.job_id), reason="lost")


def fail(stage: ShardedStage) -> None:
    assert job_moves.finish(Job.objects.get(pk=stage.job_id), job_moves.INTERNAL)


def cancel(stage: ShardedStage) -> None:
    job_moves.request_cancel(stage.job)


def lose_lease(stage: ShardedStage) -> None:
    Job.objects.filter(pk=stage.job_id).update(lease_expires_at=Now())


def stop(stage: ShardedStage) -> None:
    shard_moves.stop_stage(stage, "shard_failed")


def remove(stage: ShardedStage) -> None:
    assert shard_moves.discard_stages(stage.job, first=1, reason="removed")


def test_the_conductor_takes_seat_0_and_helpers_the_others() -> None:
    stage = make_stage()
    first, second, third = claimed(stage, conducts=True), claimed(stage), claimed(stage)
    assert [shard.seat for shard in (first, second, third)] == [0, 1, 2]
    assert [shard.number for shard in (first, second, third)] == [0, 1, 2]
    assert allotted(stage) == 3 * SLICE_MS


def test_no_more_helpers_run_than_seats() -> None:
    stage = make_stage(slots=3)
    claimed(stage)
    claimed(stage)
    assert claim(stage) is None
    assert shard_moves.find_open_stage([]) is None


def test_a_freed_seat_is_taken_again() -> None:
    stage = make_stage(slots=3)
    first, run_id = started(stage)
    claimed(stage)
    assert end(first, run_id)
    assert claimed(stage).seat == first.seat


def test_simultaneous_claims_take_different_shards_and_seats() -> None:
    stage = make_stage(shards=20, slots=9, funded_ms=1_000_000)
    at_once(12, lambda: claim(stage))
    running = list(Shard.objects.filter(stage=stage, status="running"))
    assert sorted(shard.seat or 0 for shard in running) == list(range(1, 9))
    assert len({shard.number for shard in running}) == 8
    assert allotted(stage) == 8 * SLICE_MS


def test_helpers_leave_shard_0_to_the_conductor() -> None:
    stage = make_stage(shards=1)
    assert claimed(stage).number == 1
    assert claim(stage) is None
    assert claimed(stage, conducts=True).number == 0


def test_a_shard_that_was_lost_three_times_is_not_claimed() -> None:
    stage = make_stage()
    Shard.objects.exclude(number=0).update(losses=job_moves.MAX_LOSSES)
    assert shard_moves.find_open_stage([]) is None
    assert claim(stage) is None
    assert claimed(stage, conducts=True).number == 0
    assert claim(stage, conducts=True) is None


@pytest.mark.parametrize("make_void", [requeue, cancel, lose_lease, stop, remove])
@pytest.mark.parametrize("conducts", [False, True])
def test_no_shard_starts_in_a_stage_that_must_not_go_on(
    make_void: Callable[[ShardedStage], None], *, conducts: bool
) -> None:
    stage = make_stage()
    make_void(stage)
    assert claim(stage, conducts=conducts) is None
    assert shard_moves.find_open_stage([]) is None


def test_helpers_wait_until_the_job_runs() -> None:
    """The conductor may find that the build is broken, and try the next one."""
    stage = make_stage()
    Job.objects.filter(pk=stage.job_id).update(status=Status.STARTING)
    assert claim(stage) is None
    assert shard_moves.find_open_stage([]) is None
    assert claim(stage, conducts=True) is not None


def test_a_helper_needs_funds_for_a_whole_slice() -> None:
    stage = make_stage(funded_ms=2 * SLICE_MS - 1)
    claimed(stage)
    assert claim(stage) is None
    assert shard_moves.find_open_stage([]) is None
    assert claimed(stage, conducts=True).allowance_ms == SLICE_MS - 1
    assert allotted(stage) == 2 * SLICE_MS - 1


def test_the_conductor_needs_funds() -> None:
    stage = make_stage(funded_ms=SLICE_MS)
    claimed(stage, conducts=True)
    Shard.objects.filter(stage=stage, status="running").update(seat=1)
    assert claim(stage, conducts=True) is None


@pytest.mark.parametrize(
    ("priority", "comes_first"),
    [(Priority.HIGH, "job"), (Priority.STANDARD, "job"), (Priority.BACKGROUND, "shard")],
)
def test_a_shard_comes_after_jobs_of_its_priority(
    priority: Priority, comes_first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executables, "is_same", lambda _: True)
    stage = make_stage()
    waiting = make_job(priority=priority)
    assert (claim(stage) is None) == (comes_first == "job")
    taken = claims.claim_work("w")
    assert (taken == waiting) == (comes_first == "job")


def test_a_helper_of_other_lanes_ignores_waiting_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage belongs to the standard lane, and a job of a better lane waits."""
    monkeypatch.setattr(executables, "is_same", lambda _: True)
    make_stage()
    make_job(priority=Priority.HIGH)
    assert claims.claim_work("w", lanes=[Priority.BACKGROUND]) is None
    assert isinstance(claims.claim_work("w", lanes=[Priority.STANDARD, Priority.BACKGROUND]), ClaimedShard)


def test_a_conductor_runs_its_own_shards_while_a_better_job_waits() -> None:
    stage = make_stage()
    make_job(priority=Priority.HIGH)
    assert claim(stage, conducts=True) is not None


def test_an_overdue_job_does_not_keep_shards_from_starting() -> None:
    stage = make_stage()
    overdue = make_job(priority=Priority.HIGH)
    Job.objects.filter(pk=overdue.pk).update(queue_deadline_at=Now())
    assert claim(stage) is not None


def test_a_machine_without_the_build_leaves_shards_to_others() -> None:
    stage = make_stage()
    assert claims.claim_work("w") is None
    assert stage.pk in executables.skipped.current()
    background = make_job(priority=Priority.BACKGROUND)
    assert claims.claim_work("w") == background


def test_the_job_submitted_first_gets_help_first() -> None:
    first, second = make_stage(), make_stage()
    assert shard_moves.find_open_stage([]) == first.pk
    assert shard_moves.find_open_stage([first.pk]) == second.pk


def test_an_end_bills_the_time_and_frees_the_rest() -> None:
    stage = make_stage()
    shard, run_id = started(stage)
    assert end(shard, run_id, billed_ms=3000)
    assert (row(shard).status, row(shard).billed_ms, allotted(stage)) == ("done", 3000, 3000)
    assert (run_of(shard).wall_ms, run_of(shard).seat) == (3000, 1)


def test_time_beyond_the_allowance_is_not_billed() -> None:
    stage = make_stage()
    shard, run_id = started(stage)
    assert end(shard, run_id, billed_ms=SLICE_MS + 500)
    assert allotted(stage) == SLICE_MS


def test_a_repeated_end_answers_the_same() -> None:
    stage = make_stage()
    shard, run_id = started(stage)
    assert end(shard, run_id)
    assert end(shard, run_id)
    assert allotted(stage) == 3000


def test_an_outdated_try_changes_nothing() -> None:
    stage = make_stage()
    zombie, zombie_run = started(stage)
    expire(zombie)
    assert shard_moves.lose_expired(stage, zombie.shard_id, zombie.try_number)
    current = claimed(stage)
    assert (current.number, current.try_number) == (zombie.number, 2)
    before = row(current)
    assert not end(zombie, zombie_run)
    assert shard_moves.renew_shard(zombie, wanted_ms=1000) is None
    assert start(stage, zombie) is None
    assert not shard_moves.return_shard(zombie, losses=1)
    assert not shard_moves.lose_expired(stage, zombie.shard_id, zombie.try_number)
    after = row(current)
    assert (after.lease_expires_at, after.losses, allotted(stage)) == (before.lease_expires_at, 1, SLICE_MS)
    assert (run_of(zombie).wall_ms, run_of(zombie).stopped_for) == (None, "lost")


@pytest.mark.parametrize("make_void", [fail, remove])
def test_a_void_try_changes_nothing(make_void: Callable[[ShardedStage], None]) -> None:
    stage = make_stage()
    shard, run_id = started(stage)
    make_void(stage)
    runs = list(Run.objects.order_by("id").values())
    assert shard_moves.renew_shard(shard, wanted_ms=1000) is None
    assert start(stage, shard) is None
    assert not end(shard, run_id)
    assert list(Run.objects.order_by("id").values()) == runs


def test_a_lease_that_is_alive_is_not_lost() -> None:
    stage = make_stage()
    shard = claimed(stage)
    assert not shard_moves.lose_expired(stage, shard.shard_id, shard.try_number)
    assert row(shard).status == "running"


def test_a_graceful_return_costs_no_loss() -> None:
    stage = make_stage()
    shard, _ = started(stage)
    assert shard_moves.return_shard(shard, losses=0)
    assert (row(shard).losses, row(shard).status, allotted(stage)) == (0, "waiting", 0)
    assert run_of(shard).stopped_for == "lost"


def test_a_rejected_report_is_not_billed() -> None:
    stage = make_stage()
    shard, run_id = started(stage)
    end(shard, run_id)
    assert shard_moves.reject_shard(row(shard), attempt=1, text="plain")
    again = row(shard)
    assert (again.status, again.losses, again.text, again.full_baseline) == ("waiting", 1, "plain", True)
    assert allotted(stage) == 0
    assert not shard_moves.reject_shard(again, attempt=1)


def test_a_renewal_extends_the_allowance_by_what_is_left() -> None:
    stage = make_stage(funded_ms=SLICE_MS + 1500)
    shard = claimed(stage)
    renewal = shard_moves.renew_shard(shard, wanted_ms=1000)
    assert renewal is not None
    assert (renewal.allowance_ms, renewal.free_ms) == (SLICE_MS + 1000, 500)
    renewal = shard_moves.renew_shard(shard, wanted_ms=1000)
    assert renewal is not None
    assert (renewal.allowance_ms, renewal.free_ms) == (SLICE_MS + 1500, 0)
    assert allotted(stage) == SLICE_MS + 1500


def test_a_renewal_tells_why_to_stop() -> None:
    stage = make_stage()
    shard = claimed(stage)
    cancel(stage)
    stop(stage)
    renewal = shard_moves.renew_shard(shard, wanted_ms=0)
    assert renewal is not None
    assert (renewal.is_cancelled, renewal.stop_reason) == (True, "shard_failed")


def test_simultaneous_renewals_share_what_is_left() -> None:
    stage = make_stage(shards=8, slots=9, funded_ms=8 * SLICE_MS + 1000)
    shards = [claimed(stage) for _ in range(8)]
    waiting = iter(shards)
    at_once(8, lambda: shard_moves.renew_shard(next(waiting), wanted_ms=900))
    assert allotted(stage) == 8 * SLICE_MS + 1000


def test_a_start_is_safe_to_repeat() -> None:
    stage = make_stage()
    shard, run_id = started(stage)
    assert start(stage, shard) == run_id


def test_the_first_run_of_a_job_is_safe_to_repeat() -> None:
    stage = make_stage()
    job = stage.job
    Job.objects.filter(pk=job.pk).update(status=Status.STARTING)
    job.status = Status.STARTING
    first = claimed(stage, conducts=True)
    assert shard_moves.return_shard(first, losses=1)
    second = claimed(stage, conducts=True)
    assert start(stage, first) is None
    assert Job.objects.get(pk=job.pk).status == Status.STARTING
    run_id = start(stage, second)
    assert run_id is not None
    job.status = Status.STARTING
    assert run_of(second).pk == run_id == start(stage, second)


def test_a_creation_is_safe_to_repeat() -> None:
    stage = make_stage(shards=2)
    assert shard_moves.create_stage(stage, [Shard(stage=stage, number=0, profilesets=2)], stage.job)
    assert stage.shards.count() == 3


def test_a_run_is_not_recorded_while_its_job_is_requeued() -> None:
    stage = make_stage()
    shard = claimed(stage)
    while_locked(
        "jobs_job WHERE id = %s",
        [stage.job_id],
        lambda: requeue(stage),
        lambda: start(stage, shard),
    )
    assert not Run.objects.filter(job=stage.job_id, shard=shard.number).exists()


@pytest.mark.parametrize(
    ("over", "status", "conducts"),
    [(requeue, Status.QUEUED, True), (fail, Status.FAILED, True), (fail, Status.FAILED, False)],
)
def test_a_shard_that_ends_after_its_attempt_is_void(
    over: Callable[[ShardedStage], None], status: Status, *, conducts: bool
) -> None:
    """The end reads the job before the change, then waits for it."""
    stage = make_stage()
    shard, run_id = started(stage, conducts=conducts)
    while_locked("jobs_job WHERE id = %s", [stage.job_id], lambda: over(stage), lambda: end(shard, run_id))
    assert (run_of(shard).stopped_for, run_of(shard).wall_ms) == ("lost", None)
    job = Job.objects.get(pk=stage.job_id)
    assert (job.status, job.attempt, job.sim_duration_ms) == (status, stage.attempt, None)
    assert claim(stage) is None


def test_a_dead_worker_loses_its_shards() -> None:
    stage = make_stage()
    dead, alive = claimed(stage, worker="host:1:ab:7"), claimed(stage, worker="host:2:ab:7")
    assert shard_moves.lose_shards_of("host:1:ab") == 1
    assert (row(dead).status, row(dead).losses, row(alive).status) == ("waiting", 1, "running")


def test_the_state_counts_shards() -> None:
    stage = make_stage(shards=4, slots=4)
    (done, run_id), lost = started(stage), claimed(stage)
    end(done, run_id)
    expire(lost)
    state = shard_moves.read_stage(stage)
    assert state is not None
    assert (state.waiting, state.running, state.failed, state.done) == (3, 1, 0, 2)
    assert (state.free_ms, state.expired) == (100_000 - 3000 - SLICE_MS, [(lost.shard_id, lost.try_number)])
    remove(stage)
    assert shard_moves.read_stage(stage) is None


def test_funds_only_grow() -> None:
    stage = make_stage(funded_ms=20_000)
    shard_moves.fund_stage(stage, funded_ms=15_000)
    shard_moves.fund_stage(stage, funded_ms=30_000)
    stage.refresh_from_db()
    assert stage.funded_ms == 30_000


def test_stages_of_ended_jobs_are_removed_after_a_while() -> None:
    current, kept, void, recent = make_stage(), make_stage(), make_stage(), make_stage()
    requeue(kept)
    for stage in (void, recent):
        fail(stage)
    Job.objects.filter(pk=void.job_id).update(completed_at=Now() - 2 * shard_moves.VOID_KEPT)
    assert shard_moves.remove_void_stages() == 1
    assert set(ShardedStage.objects.values_list("pk", flat=True)) == {current.pk, kept.pk, recent.pk}


def test_an_outdated_attempt_creates_no_stage() -> None:
    stage = make_stage()
    requeue(stage)
    again = ShardedStage(job=stage.job, attempt=1, stage=2, build=stage.build, created_at=Now())
    job = Job.objects.get(pk=stage.job_id)
    assert not shard_moves.create_stage(again, [], job)


def test_moves_take_one_round_trip() -> None:
    stage = make_stage()
    shard, run_id = started(stage)
    with traffic() as recorded:
        shard_moves.renew_shard(shard, wanted_ms=1000)
        end(shard, run_id)
        claim(stage)
        shard_moves.read_stage(stage)
    assert recorded.round_trips == 4


def test_the_slots_used_are_counted() -> None:
    stage = make_stage()
    for each in [started(stage), started(stage)]:
        assert end(*each)
    started(stage)
    assert shard_moves.slots_used(stage.job) == 2


def test_the_database_enforces_the_funds_and_seats() -> None:
    stage = make_stage()
    claimed(stage)
    claimed(stage)
    with connection.cursor() as cursor, pytest.raises(Exception, match="sharded_stage_is_funded"):
        cursor.execute("UPDATE jobs_shardedstage SET allotted_ms = funded_ms + 1 WHERE id = %s", [stage.pk])
    with connection.cursor() as cursor, pytest.raises(Exception, match="shard_seat_unique"):
        cursor.execute("UPDATE jobs_shard SET seat = 1 WHERE status = 'running'")
