"""The sweep after PostgreSQL's clock jumped: `docs/explanation/clocks.md`."""

from datetime import datetime, timedelta

import pytest
from django.conf import settings
from django.db.models.functions import Now

from jobs.enums import Status
from jobs.models import Job, Shard
from jobs.queue import sweep
from simservice.clocks import database_time
from tests.factories import make_job, make_running_job
from tests.jobs.shards.sharded_jobs import claimed, make_stage

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def longest_lease() -> datetime:
    return database_time() + timedelta(seconds=settings.LEASE_SECONDS)


def test_the_lease_of_a_dead_worker_ends_in_time_although_the_clock_was_set_back() -> None:
    job = make_running_job()
    Job.objects.update(lease_expires_at=Now() + HOUR)
    assert sweep.sweep()["shortened_leases"] == 1
    job.refresh_from_db()
    assert job.status == Status.RUNNING
    assert job.lease_expires_at is not None
    assert job.lease_expires_at <= longest_lease()
    assert sweep.shorten_leases() == 0


def test_the_lease_of_a_shard_ends_in_time_too() -> None:
    stage = make_stage()
    shard = claimed(stage)
    Shard.objects.filter(pk=shard.shard_id).update(lease_expires_at=Now() + HOUR)
    assert sweep.shorten_leases() == 1
    expires_at = Shard.objects.get(pk=shard.shard_id).lease_expires_at
    assert expires_at is not None
    assert expires_at <= longest_lease()


@pytest.mark.parametrize(("ahead", "ended"), [(0, 1), (3, 1), (3600, 0), (-3600, 0)])
def test_no_wait_ends_while_the_clocks_disagree(monkeypatch: pytest.MonkeyPatch, ahead: int, ended: int) -> None:
    job = make_job()
    Job.objects.update(queue_deadline_at=Now() - timedelta(minutes=1))
    monkeypatch.setattr(sweep, "database_time", lambda: database_time() + timedelta(seconds=ahead))
    assert sweep.end_overdue_waits() == ended
    assert Job.objects.get(pk=job.pk).status == (Status.FAILED if ended else Status.PENDING)
