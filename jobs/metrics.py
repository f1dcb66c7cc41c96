"""Prometheus metrics of the queue and the workers, counted at each scrape with partial indexes."""

from collections.abc import Iterator

from django.db import Error as DatabaseError
from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from jobs import lifecycle, retention
from jobs.builds import registry
from jobs.enums import CLAIMED, WAITING, Priority
from jobs.models import Build, Job
from jobs.queueing import announcements, forecast
from jobs.simulator import layers
from simservice.metrics import gauge
from simservice.redis import worker_heartbeats


class QueueCollector(Collector):
    """Collects the gauges. If the database or Redis does not respond, it counts as down and has no gauges."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        up = GaugeMetricFamily("simservice_up", "Whether a part of the service responds.", labels=["part"])
        for part, read, failure in (
            ("database", _database_gauges, DatabaseError),
            ("redis", _worker_gauges, RedisError),
        ):
            try:
                yield from read()
            except failure:
                up.add_metric([part], 0)
            else:
                up.add_metric([part], 1)
        yield up


def _database_gauges() -> list[GaugeMetricFamily]:
    """Return the metrics of unfinished jobs, expired jobs and broken builds.

    Nine queries, and one for each period of retention.
    """
    claimed = Job.objects.filter(status__in=CLAIMED)
    stalled = claimed.filter(lifecycle.LEASE_EXPIRED).count()
    return [
        _waiting_jobs(),
        gauge("jobs_held", "Jobs claimed by workers.", claimed.count()),
        gauge("slots_helping", "Slots that run a shard of another slot's job.", forecast.helpers().count()),
        gauge("oldest_wait_seconds", "How long the oldest waiting job has waited.", forecast.oldest_wait_seconds()),
        gauge("leases_stalled", "Claimed jobs whose worker stopped renewing the lease.", stalled),
        gauge("jobs_unannounced", "Pending jobs whose announcement was lost.", announcements.unannounced().count()),
        gauge("jobs_uncleared", "Jobs whose files should have been removed.", retention.count_overdue()),
        gauge("builds_broken", "Builds marked as broken.", Build.objects.filter(registry.BROKEN).count()),
    ]


def _waiting_jobs() -> GaugeMetricFamily:
    """Return the number of waiting jobs in each lane."""
    waiting = Job.objects.filter(status__in=WAITING)
    counts = dict(waiting.values_list("priority").annotate(Count("id")).order_by())
    family = GaugeMetricFamily("simservice_jobs_waiting", "Jobs waiting for a worker.", labels=["priority"])
    for priority in Priority:
        family.add_metric([priority.api_name], counts.get(priority, 0))
    return family


def _worker_gauges() -> list[GaugeMetricFamily]:
    """Return the metrics of live workers, from Redis."""
    workers = worker_heartbeats.simulation_workers()
    return [
        gauge("workers", "Live simulation workers.", len(workers)),
        gauge(
            "slots", "Simulations that the live workers can run at once.", worker_heartbeats.total_slots(workers)
        ),
        _missing_protections(workers),
    ]


def _missing_protections(workers: list[worker_heartbeats.LiveWorker]) -> GaugeMetricFamily:
    """Return the number of live workers that lack each protection of the sandbox."""
    family = GaugeMetricFamily(
        "simservice_sandbox_missing",
        "Live simulation workers whose sandbox lacks a protection.",
        labels=["protection"],
    )
    for name in layers.PROTECTIONS:
        count = sum(name in layers.missing(worker.layers) for worker in workers)
        family.add_metric([name.replace(" ", "_")], count)
    return family
