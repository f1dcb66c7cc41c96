"""Prometheus metrics of the queue and the workers."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from redis.exceptions import RedisError

from jobs import registry
from jobs.enums import Priority
from jobs.models import Job
from jobs.operations.metrics import QueueCollector
from localstack.redis_server import free_port
from simservice import worker_heartbeats
from tests.factories import BuildFactory, make_job, make_running_job
from tests.jobs.queue_states import help_with


def queue_gauges() -> dict[str, Any]:
    """Return the gauges by name and label value."""
    families = (family for family in QueueCollector().collect() if family.type == "gauge")
    samples = (sample for family in families for sample in family.samples)
    names = ((sample, "".join(f".{value}" for value in sample.labels.values())) for sample in samples)
    return {f"{sample.name.removeprefix('simservice_')}{label}": sample.value for sample, label in names}


@pytest.mark.django_db
def test_gauges_describe_the_queue_and_the_workers() -> None:
    make_job(created_at=timezone.now() - timedelta(minutes=1))
    make_job(priority=Priority.HIGH)
    stalled = make_running_job()
    help_with(make_running_job(parallel_slots=4), helpers=2)
    registry.mark_broken(BuildFactory.create(), "gone")
    Job.objects.filter(pk=stalled.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
    worker_heartbeats.report("sim@here", slots=3, layers=["landlock", "seccomp"])
    gauges = queue_gauges()
    assert 59 < gauges.pop("oldest_wait_seconds") < 110
    assert gauges == {
        "jobs_waiting.high": 1,
        "jobs_waiting.standard": 1,
        "jobs_waiting.background": 0,
        "lane_paused.high": 0,
        "lane_paused.standard": 0,
        "lane_paused.background": 0,
        "machines_drained": 0,
        "jobs_held": 2,
        "slots_helping": 2,
        "leases_stalled": 1,
        "jobs_unannounced": 1,
        "jobs_uncleared": 0,
        "builds_broken": 1,
        "workers": 1,
        "slots": 3,
        "queue_depth_per_slot": 4 / 3,
        "sandbox_missing.file_system_view": 0,
        "sandbox_missing.own_identity": 1,
        "sandbox_missing.network_namespace": 1,
        "sandbox_missing.seccomp": 0,
        "sandbox_missing.resource_limits": 1,
        "up.database": 1,
        "up.redis": 1,
    }


@pytest.mark.django_db
def test_a_scrape_takes_ten_queries() -> None:
    with CaptureQueriesContext(connection) as queries:
        queue_gauges()
    assert len(queries) == 10


@pytest.mark.django_db(transaction=True)
def test_workers_are_reported_without_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    worker_heartbeats.report("sim@here", slots=3)
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connection.settings_dict, "PORT", str(free_port()))
    gauges = {name: value for name, value in queue_gauges().items() if not name.startswith("sandbox")}
    assert gauges == {"workers": 1, "slots": 3, "up.database": 0, "up.redis": 1}


@pytest.mark.django_db
def test_the_queue_is_reported_without_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RedisError

    monkeypatch.setattr(worker_heartbeats, "simulation_workers", fail)
    gauges = queue_gauges()
    assert (gauges["jobs_held"], gauges["up.database"], gauges["up.redis"]) == (0, 1, 0)
    assert "workers" not in gauges
