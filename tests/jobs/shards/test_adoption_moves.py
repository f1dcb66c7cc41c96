"""Stages that a later attempt adopts: what it keeps, what it fences, and what helpers may still do."""

from collections.abc import Callable

import pytest
from django.conf import settings
from django.db.models.functions import Now

from jobs.enums import Status
from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import Job, Run, Shard, ShardedStage
from jobs.queue import sweep
from tests.concurrency import at_once
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

pytestmark = pytest.mark.django_db(transaction=True)


def next_attempt(stage: ShardedStage) -> Job:
    """Lose the attempt of a stage's job, and return the job as the next attempt has it."""
    job = Job.objects.get(pk=stage.job_id)
    assert job_moves.requeue(job, reason="lost")
    again = job_moves.claim_job("another worker")
    assert again == job
    return again


def adopted(stage: ShardedStage, *, funded_ms: int = 100_000) -> ShardedStage:
    """Let the next attempt adopt a stage; return the stage as that attempt has it."""
    job = next_attempt(stage)
    current = ShardedStage.objects.select_related("job", "build").get(pk=stage.pk)
    assert shard_moves.adopt_stage(current, job, funded_ms=funded_ms)
    current.job = job
    return current


def done(stage: ShardedStage, *, conducts: bool = False) -> ClaimedShard:
    shard, run_id = started(stage, conducts=conducts)
    assert end(shard, run_id)
    return shard


def everything() -> list[dict[str, object]]:
    """Return all rows of stages, shards and runs."""
    return [values for model in (ShardedStage, Shard, Run) for values in model.objects.order_by("pk").values()]


def test_an_adoption_keeps_what_is_done_and_returns_what_nothing_runs() -> None:
    stage = make_stage(slots=4)
    finished = done(stage)
    own, live, dead = started(stage, conducts=True)[0], started(stage)[0], started(stage)[0]
    expire(dead)
    Shard.objects.filter(number=4).update(losses=2)
    current = adopted(stage)
    assert [row(shard).status for shard in (finished, own, live, dead)] == ["done", "waiting", "running", "waiting"]
    assert not Shard.objects.filter(losses__gt=0).exists()
    assert [run_of(shard).stopped_for for shard in (finished, own, live, dead)] == ["", "lost", "", "lost"]
    assert allotted(stage) == 3000 + SLICE_MS
    assert (current.attempt, current.created_by_attempt) == (2, 1)
    current.refresh_from_db()
    assert (current.attempt, current.created_by_attempt, current.funded_ms) == (2, 1, 100_000)


def test_an_adoption_starts_the_job_and_says_what_it_keeps() -> None:
    stage = make_stage()
    done(stage)
    job = adopted(stage).job
    assert job.status == Status.RUNNING
    job.refresh_from_db()
    assert (job.status, job.build, job.attempt) == (Status.RUNNING, stage.build, 2)
    event = job.events.order_by("id").last()
    assert event is not None
    assert (event.from_status, event.to_status) == ("starting", "running")
    assert event.reason == "continues stage 1 with 1 of 5 shards done"
    assert claim(stage) is not None


def test_an_adoption_is_safe_to_repeat() -> None:
    stage = make_stage()
    started(stage, conducts=True)
    job = next_attempt(stage)
    assert shard_moves.adopt_stage(ShardedStage.objects.get(pk=stage.pk), job, funded_ms=100_000)
    job.status = Status.STARTING
    before = everything()
    assert shard_moves.adopt_stage(ShardedStage.objects.get(pk=stage.pk), job, funded_ms=100_000)
    assert everything() == before
    assert job.events.filter(to_status="running", attempt=2).count() == 1


def test_an_adoption_funds_no_less_than_what_is_allotted() -> None:
    stage = make_stage()
    done(stage)
    started(stage)
    current = adopted(stage, funded_ms=5000)
    current.refresh_from_db()
    assert current.funded_ms == current.allotted_ms == 3000 + SLICE_MS


def test_only_the_current_attempt_adopts() -> None:
    stage = make_stage()
    second = next_attempt(stage)
    third = next_attempt(stage)
    current = ShardedStage.objects.get(pk=stage.pk)
    before = everything()
    assert not shard_moves.adopt_stage(current, second, funded_ms=1)
    assert everything() == before
    assert shard_moves.adopt_stage(current, third, funded_ms=100_000)
    assert shard_moves.read_stage(ShardedStage(pk=stage.pk, attempt=2)) is None


def test_of_two_attempts_that_adopt_at_once_one_does() -> None:
    stage = make_stage()
    jobs = [next_attempt(stage), next_attempt(stage)]
    waiting, results = iter(jobs), list[bool]()

    def act() -> None:
        current = ShardedStage.objects.get(pk=stage.pk)
        results.append(shard_moves.adopt_stage(current, next(waiting), funded_ms=100_000))

    at_once(2, act)
    assert sorted(results) == [False, True]
    stage.refresh_from_db()
    assert stage.attempt == 3


def test_a_removed_stage_is_not_adopted() -> None:
    stage = make_stage()
    job = next_attempt(stage)
    ShardedStage.objects.all().delete()
    assert not shard_moves.adopt_stage(stage, job, funded_ms=1)
    assert Job.objects.get(pk=job.pk).status == Status.STARTING


def test_a_stage_of_a_version_before_adoption_keeps_its_file_names() -> None:
    stage = make_stage()
    ShardedStage.objects.update(created_by_attempt=None)
    stage.refresh_from_db()
    assert stage.creator == 1
    current = adopted(stage)
    assert (current.attempt, current.creator) == (2, 1)
    current.refresh_from_db()
    assert (current.attempt, current.creator) == (2, 1)


def queued(stage: ShardedStage) -> None:
    assert job_moves.requeue(Job.objects.get(pk=stage.job_id), reason="lost")


def starting(stage: ShardedStage) -> None:
    next_attempt(stage)


def adopt(stage: ShardedStage) -> None:
    adopted(stage)


BETWEEN = [queued, starting, adopt]


@pytest.mark.parametrize("come_to", BETWEEN)
def test_a_helper_goes_on_between_two_attempts(come_to: Callable[[ShardedStage], None]) -> None:
    stage = make_stage()
    shard, run_id = started(stage)
    come_to(stage)
    renewal = shard_moves.renew_shard(shard, wanted_ms=1000)
    assert renewal is not None
    assert renewal.allowance_ms == SLICE_MS + 1000
    assert end(shard, run_id)
    assert (row(shard).status, run_of(shard).wall_ms, run_of(shard).attempt) == ("done", 3000, 1)
    assert allotted(stage) == 3000


@pytest.mark.parametrize("come_to", BETWEEN)
def test_the_own_shard_of_a_lost_conductor_is_void(come_to: Callable[[ShardedStage], None]) -> None:
    stage = make_stage()
    shard, run_id = started(stage, conducts=True)
    come_to(stage)
    before = everything()
    assert shard_moves.renew_shard(shard, wanted_ms=1000) is None
    assert start(stage, shard) is None
    assert not end(shard, run_id)
    assert everything() == before


@pytest.mark.parametrize("come_to", BETWEEN)
def test_a_helper_that_has_not_started_waits_for_the_next_attempt(come_to: Callable[[ShardedStage], None]) -> None:
    stage = make_stage()
    shard = claimed(stage)
    come_to(stage)
    assert start(stage, shard) is None
    assert shard_moves.return_shard(shard, losses=0)
    assert (row(shard).status, row(shard).losses) == ("waiting", 0)


@pytest.mark.parametrize("come_to", [queued, starting])
def test_nothing_is_claimed_between_two_attempts(come_to: Callable[[ShardedStage], None]) -> None:
    stage = make_stage()
    come_to(stage)
    assert shard_moves.find_open_stage([]) is None
    assert claim(stage) is None
    assert claim(stage, conducts=True) is None


def claims_a_shard(stage: ShardedStage) -> object:
    return claim(stage, conducts=True)


def reads(stage: ShardedStage) -> object:
    return shard_moves.read_stage(stage)


def funds(stage: ShardedStage) -> object:
    return shard_moves.fund_stage(stage, funded_ms=10**9)


def stops(stage: ShardedStage) -> object:
    return shard_moves.stop_stage(stage, "shard_failed")


def loses(stage: ShardedStage) -> object:
    expired = Shard.objects.get(status="running", lease_expires_at__lt=Now())
    return shard_moves.lose_expired(stage, expired.pk, expired.try_number)


def rejects(stage: ShardedStage) -> object:
    return shard_moves.reject_shard(Shard.objects.get(status="done"), attempt=stage.attempt)


def discards(stage: ShardedStage) -> object:
    return shard_moves.discard_stages(stage.job, first=1, reason="the build changed")


def removes(stage: ShardedStage) -> object:
    return shard_moves.remove_stage(stage.pk)


def adopts(stage: ShardedStage) -> object:
    return shard_moves.adopt_stage(stage, stage.job, funded_ms=1)


def creates(stage: ShardedStage) -> object:
    again = ShardedStage(job=stage.job, attempt=1, stage=2, build=stage.build, created_at=Now())
    return shard_moves.create_stage(again, [], stage.job)


def ends_the_job(stage: ShardedStage) -> object:
    return job_moves.finish(stage.job, job_moves.INTERNAL)


def requeues(stage: ShardedStage) -> object:
    return job_moves.requeue(stage.job, reason="it stops")


def claim_of_running(stage: ShardedStage) -> ClaimedShard:
    shard = Shard.objects.get(status="running", lease_expires_at__gt=Now())
    return ClaimedShard(
        shard_id=shard.pk,
        stage_id=stage.pk,
        number=shard.number,
        try_number=shard.try_number,
        allowance_ms=1,
        text="",
        profilesets=1,
        full_baseline=False,
    )


def starts_a_run(stage: ShardedStage) -> object:
    return start(stage, claim_of_running(stage))


@pytest.mark.parametrize(
    "act",
    [
        claims_a_shard,
        reads,
        funds,
        stops,
        loses,
        rejects,
        discards,
        removes,
        adopts,
        creates,
        ends_the_job,
        requeues,
        starts_a_run,
    ],
)
def test_an_old_conductor_changes_nothing_after_an_adoption(act: Callable[[ShardedStage], object]) -> None:
    stage = make_stage()
    done(stage)
    adopted(stage)
    expire(claimed(stage))
    claimed(stage)
    before = everything()
    assert not act(stage)
    assert everything() == before
    assert Job.objects.get(pk=stage.job_id).status == Status.RUNNING


def test_a_discarded_stage_ends_its_runs_and_says_why() -> None:
    stage = make_stage()
    done(stage)
    _, run_id = shard_and_run = started(stage)
    job = next_attempt(stage)
    removed = shard_moves.discard_stages(job, first=1, reason="stage 1 starts again")
    assert removed is not None
    assert {(number, tries) for _, number, tries in removed} == {(0, 0), (1, 1), (2, 1), (3, 0), (4, 0)}
    assert not ShardedStage.objects.exists()
    assert Run.objects.get(pk=run_id).stopped_for == "lost"
    assert not end(*shard_and_run)
    event = job.events.order_by("id").last()
    assert event is not None
    assert (event.from_status, event.to_status, event.reason) == ("starting", "starting", "stage 1 starts again")


def test_the_runs_of_earlier_attempts_end_with_the_job() -> None:
    stage = make_stage()
    shard, run_id = started(stage)
    current = adopted(stage)
    assert job_moves.finish(current.job, job_moves.INTERNAL)
    assert (run_of(shard).attempt, run_of(shard).stopped_for) == (1, "lost")
    assert not end(shard, run_id)


def test_earlier_stages_are_not_discarded() -> None:
    first = make_stage()
    second = make_stage(first.job, stage=2)
    job = next_attempt(first)
    assert shard_moves.discard_stages(job, first=2, reason="stage 2 starts again")
    assert list(ShardedStage.objects.all()) == [first]
    assert shard_moves.read_stage(second) is None


def test_a_stage_is_removed_only_after_its_job() -> None:
    stage = make_stage()
    done(stage)
    assert not shard_moves.remove_stage(stage.pk)
    assert ShardedStage.objects.exists()
    assert job_moves.finish(Job.objects.get(pk=stage.job_id), job_moves.INTERNAL)
    assert shard_moves.remove_stage(stage.pk)
    assert not ShardedStage.objects.exists()
    assert not Shard.objects.exists()


def test_an_attempt_that_finished_a_kept_shard_is_not_lost() -> None:
    """Each attempt finishes a shard and is killed, then one finishes none."""
    stage = make_stage(shards=9)
    for _ in range(settings.MAX_ATTEMPTS + 1):
        done(stage)
        stage = adopted(stage)
    job = Job.objects.get(pk=stage.job_id)
    assert (job.attempt, sweep.lost_attempts(job)) == (settings.MAX_ATTEMPTS + 2, 1)
    assert sweep.recover(job, guard=job_moves.ANY)
    assert Job.objects.get(pk=job.pk).status == Status.QUEUED


def test_attempts_that_finish_nothing_are_limited() -> None:
    stage = make_stage()
    done(stage)
    for _ in range(settings.MAX_ATTEMPTS):
        stage = adopted(stage)
    job = Job.objects.get(pk=stage.job_id)
    assert sweep.lost_attempts(job) == settings.MAX_ATTEMPTS
    assert sweep.recover(job, guard=job_moves.ANY)
    assert Job.objects.get(pk=job.pk).status == Status.FAILED


def test_shards_of_a_discarded_stage_count_no_more() -> None:
    stage = make_stage()
    done(stage)
    job = next_attempt(stage)
    shard_moves.discard_stages(job, first=1, reason="the build changed")
    again = make_stage(job)
    Job.objects.filter(pk=job.pk).update(status=Status.RUNNING)
    job.status = Status.RUNNING
    done(again)
    assert shard_moves.productive_attempts(job) == {2}


def test_slots_of_all_attempts_are_counted() -> None:
    stage = make_stage()
    helping = started(stage)
    done(stage, conducts=True)
    current = adopted(stage)
    end(*helping)
    done(current, conducts=True)
    started(current)
    assert shard_moves.slots_used(current.job) == 2
