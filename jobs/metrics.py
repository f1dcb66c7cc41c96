"""What Prometheus is told about the queue and the workers: counted when it asks, on partial indexes."""

from collections.abc import Iterator

from django.db import Error as DatabaseError
from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from jobs import lifecycle, retention
from jobs.builds import registry
from jobs.enums import HELD, WAITING, Priority
from jobs.models import Build, Job
from jobs.queueing import announcements, forecast
from jobs.simulator import layers
from simservice.redis import worker_heartbeats


class QueueCollector(Collector):
    """The gauges. Those of a part that does not answer are left out, and the part is reported as down."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        up = GaugeMetricFamily("simservice_up", "Whether a part of the service answers.", labels=["part"])
        for part, read, failure in (
            ("database", database_gauges, DatabaseError),
            ("redis", worker_gauges, RedisError),
        ):
            try:
                yield from read()
            except failure:
                up.add_metric([part], 0)
            else:
                up.add_metric([part], 1)
        yield up


def database_gauges() -> list[GaugeMetricFamily]:
    """Return the metrics of unfinished jobs, expired jobs and broken builds. Seven queries."""
    held = Job.objects.filter(status__in=HELD)
    stalled = held.filter(lifecycle.LEASE_EXPIRED).count()
    return [
        waiting(),
        gauge("jobs_held", "Jobs that a worker holds.", held.count()),
        gauge("oldest_wait_seconds", "How long the first waiting job has waited.", forecast.oldest_wait_seconds()),
        gauge("leases_stalled", "Held jobs whose worker stopped renewing its lease.", stalled),
        gauge("jobs_unannounced", "Pending jobs whose announcement was lost.", announcements.unannounced().count()),
        gauge("jobs_uncleared", "Jobs whose files should have been removed.", retention.overdue().count()),
        gauge("builds_broken", "Builds marked as broken.", Build.objects.filter(registry.BROKEN).count()),
    ]


def waiting() -> GaugeMetricFamily:
    """Return how many jobs wait in each lane."""
    counted = Job.objects.filter(status__in=WAITING).values_list("priority").annotate(Count("id")).order_by()
    counts = dict(counted)
    family = GaugeMetricFamily("simservice_jobs_waiting", "Jobs that wait for a worker.", labels=["priority"])
    for priority in Priority:
        family.add_metric([priority.name.lower()], counts.get(priority, 0))
    return family


def worker_gauges() -> list[GaugeMetricFamily]:
    """Return what Redis knows of live workers."""
    workers = worker_heartbeats.simulation_workers()
    return [
        gauge("workers", "Live simulation workers.", len(workers)),
        gauge(
            "slots",
            "Simulations that the live workers run at the same time.",
            worker_heartbeats.total_slots(workers),
        ),
        protections(workers),
    ]


def protections(workers: list[worker_heartbeats.LiveWorker]) -> GaugeMetricFamily:
    """Return how many live workers lack each protection of the sandbox."""
    told = "Live simulation workers whose sandbox lacks a protection."
    family = GaugeMetricFamily("simservice_sandbox_missing", told, labels=["protection"])
    for name in layers.PROTECTIONS:
        count = sum(name in layers.missing(worker.layers) for worker in workers)
        family.add_metric([name.replace(" ", "_")], count)
    return family


def gauge(name: str, told: str, value: float) -> GaugeMetricFamily:
    """Return a gauge of one value."""
    return GaugeMetricFamily(f"simservice_{name}", told, value=value)
