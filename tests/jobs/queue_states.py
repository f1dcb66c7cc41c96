"""States of the queue for tests of estimated start times."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs.enums import ShardStatus, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.live.progress import Progress, Publisher
from jobs.models import Job, Run, Shard, ShardedStage
from jobs.queue import forecast
from jobs.queue.forecast import estimated_start
from simservice import worker_heartbeats
from tests.factories import make_running_job

COPIES = """
    INSERT INTO jobs_job SELECT copy.*
    FROM jobs_job AS job, generate_series(1, %s) AS n, jsonb_populate_record(job, jsonb_build_object(
        'id', job.id + n, 'share_token', n::text, 'priority', n %% 3)) AS copy
    WHERE job.id = %s
"""


def end(job: Job) -> None:
    """End a claimed job."""
    assert job_moves.finish(job, Outcome(status=Status.FAILED, error_code="internal"))


def measure(seconds: float, **fields: Any) -> None:
    """Add one measured run; nothing is running afterwards."""
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
    """One live slot and past runs of ten seconds."""
    worker_heartbeats.report("sim@here", slots=1)
    measure(10)


@pytest.fixture
def _frozen_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Freeze the forecast's clock."""
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)


def run_for(seconds: float, *, percent: float | None = None, **fields: Any) -> Job:
    """Make a job that has run for some time, with progress if `percent` is given."""
    job = make_running_job(**fields)
    Job.objects.filter(pk=job.pk).update(started_at=timezone.now() - timedelta(seconds=seconds))
    if percent is not None:
        Publisher(job).publish(Progress(percent=percent, stage=None))
    return job


def cut(job: Job) -> ShardedStage:
    """Cut the first stage of a running job into shards. Seat 0 runs the first one."""
    assert job.build is not None
    stage = ShardedStage.objects.create(
        job=job, attempt=job.attempt, stage=1, build=job.build, priority=job.priority, slots=job.parallel_slots,
        funded_ms=10**6, slice_ms=1000, created_at=timezone.now(),
    )  # fmt: skip
    run_shard(stage, seat=0)
    return stage


def run_shard(stage: ShardedStage, *, seat: int) -> Shard:
    """Add a shard that the slot with this seat runs."""
    return Shard.objects.create(
        stage=stage, number=stage.shards.count(), profilesets=1, status=ShardStatus.RUNNING, try_number=1,
        seat=seat, worker="w", lease_expires_at=job_moves.lease_end(), allowance_ms=1000,
    )  # fmt: skip


def help_with(job: Job, *, helpers: int) -> ShardedStage:
    """Cut a running job into shards, and let helpers run some of them."""
    stage = cut(job)
    for seat in range(1, 1 + helpers):
        run_shard(stage, seat=seat)
    return stage
