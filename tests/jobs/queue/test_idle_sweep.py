"""The sweep of an idle machine: it makes few queries and misses no change."""

import random
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from jobs import tasks
from jobs.lifecycle import job_moves, shard_moves
from jobs.models import Job, Run
from jobs.queue import forecast, sweep
from simservice import worker_heartbeats
from tests.factories import BuildFactory, make_job
from tests.jobs.plans import ENDED, copy_job, reindex_jobs
from tests.jobs.shards.sharded_jobs import make_stage

pytestmark = pytest.mark.django_db


def test_an_idle_sweep_costs_two_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    worker_heartbeats.report("sim@here", slots=2)
    tasks.sweep()
    with django_assert_num_queries(2):
        tasks.sweep()


def test_a_sweep_is_idle_only_without_unfinished_jobs() -> None:
    assert is_idle()
    job = make_job()
    assert not is_idle()
    job_moves.mark_queued(job)
    assert not is_idle()
    claimed = job_moves.claim_job("worker")
    assert not is_idle()
    assert claimed is not None
    assert job_moves.start_run(claimed, build=BuildFactory.create())
    assert not is_idle()
    job_moves.finish(claimed, sweep.interrupted(claimed))
    assert is_idle()


def test_a_sweep_is_not_idle_before_the_shards_of_ended_jobs_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_moves, "VOID_KEPT", timedelta(0))
    stage = make_stage()
    job_moves.finish(stage.job, sweep.interrupted(stage.job))
    assert not is_idle()
    sweep.sweep()
    assert is_idle()


def is_idle() -> bool:
    return sweep.idle_state()[0]


def test_the_latest_ended_run_is_found() -> None:
    job = make_job()
    for number in range(5):
        ended = random.Random(number).random() < 0.5  # noqa: S311
        make_run(job, stage=number + 1, wall_ms=100 if ended else None)
        assert sweep.idle_state()[1] == latest_ended().values_list("id", flat=True).first()


def make_run(job: Job, *, stage: int, wall_ms: int | None) -> Run:
    now = timezone.now()
    ended_at = None if wall_ms is None else now
    build = BuildFactory.create()
    return Run.objects.create(
        job=job, attempt=1, stage=stage, build=build, started_at=now, ended_at=ended_at, wall_ms=wall_ms
    )


def latest_ended() -> QuerySet[Run]:
    return Run.objects.filter(wall_ms__isnull=False).order_by("-id")


def test_an_idle_snapshot_equals_a_complete_one() -> None:
    worker_heartbeats.report("sim@here", slots=2)
    forecast.publish_idle(latest_run=None)
    idle = forecast.current()
    forecast.publish()
    complete = forecast.current()
    assert idle is not None
    assert complete is not None
    assert idle.taken_at < complete.taken_at
    fields = set(forecast.QueueSnapshot.__dataclass_fields__) - {"taken_at"}
    assert {name: getattr(idle, name) for name in fields} == {name: getattr(complete, name) for name in fields}


def test_an_idle_snapshot_includes_new_runs(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    job = make_job()
    for number in (1, 2):
        run = make_run(job, stage=number, wall_ms=1000 * number)
        with django_assert_num_queries(1):
            snapshots = [forecast.take_idle(slots=1, latest_run=run.pk) for _ in range(2)]
        assert [each.run_seconds for each in snapshots] == [{str(job.vcpus): float(1 + 2 * (number - 1))}] * 2


def test_the_idle_query_reads_only_indexes() -> None:
    copy_job(make_job().pk, 5_000, changes=ENDED)
    reindex_jobs()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN " + sweep.SQL["idle_state"])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "job_active" in plan
    assert "Index Scan Backward using jobs_run_pkey" in plan
    assert "Seq Scan" not in plan
    assert "Sort" not in plan
