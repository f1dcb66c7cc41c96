"""Prometheus metrics of the queue and the workers, read at each scrape with partial indexes and from Redis."""

from collections.abc import Iterator

from django.db import Error as DatabaseError
from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from jobs import registry
from jobs.artifacts import retention
from jobs.enums import CLAIMED, Priority
from jobs.lifecycle import counters, job_moves
from jobs.models import CLAIMABLE, Build, Job
from jobs.queue import announcements, closures, forecast
from sandbox import layers
from simservice import clocks, worker_heartbeats
from simservice.redis import shared_metrics
from simservice.telemetry.metrics import gauge


class QueueCollector(Collector):
    """Collects the metrics. If the database or Redis does not respond, it counts as down and has no metrics."""

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("simservice_up", "Whether a part of the service responds.", labels=["part"])
        sizes = []
        for part, read, failure in (
            ("database", _database_metrics, DatabaseError),
            ("redis", _redis_metrics, RedisError),
        ):
            try:
                metrics, size = read()
            except failure:
                up.add_metric([part], 0)
            else:
                up.add_metric([part], 1)
                sizes.append(size)
                yield from metrics
        yield up
        if len(sizes) == 2:
            jobs, slots = sizes
            # The number of workers is chosen by it. Without slots, it is the number of jobs.
            yield gauge(
                "queue_depth_per_slot", "Waiting and claimed jobs per slot of live workers.", jobs / max(1, slots)
            )


def _database_metrics() -> tuple[list[Metric], int]:
    """Return the metrics of unfinished jobs, expired jobs and broken builds, and how many jobs are unfinished.

    Ten queries, and one for each period of retention.
    """
    claimed = Job.objects.filter(status__in=CLAIMED)
    lanes = Job.objects.filter(CLAIMABLE).values_list("priority").annotate(Count("id"))
    waiting, held = dict(lanes.order_by()), claimed.count()
    by_lane = GaugeMetricFamily("simservice_jobs_waiting", "Jobs waiting for a worker.", labels=["lane"])
    for priority in Priority:
        by_lane.add_metric([priority.api_name], waiting.get(priority, 0))
    closed = list(closures.current().values_list("lane", flat=True))
    paused = GaugeMetricFamily("simservice_lane_paused", "Whether an operator paused a lane.", labels=["lane"])
    for priority in Priority:
        paused.add_metric([priority.api_name], int(priority in closed))
    stalled = claimed.filter(job_moves.LEASE_EXPIRED).count()
    metrics: list[Metric] = [
        by_lane,
        paused,
        gauge("machines_drained", "Machines that an operator drained.", closed.count(None)),
        gauge("jobs_held", "Jobs claimed by workers.", held),
        gauge("slots_helping", "Slots that run a shard of another slot's job.", forecast.helpers().count()),
        gauge(
            "oldest_wait_seconds",
            "Seconds since the submission of the oldest waiting job.",
            forecast.oldest_wait_seconds(),
        ),
        gauge("leases_stalled", "Claimed jobs whose worker stopped renewing the lease.", stalled),
        gauge("jobs_unannounced", "Pending jobs whose announcement was lost.", announcements.unannounced().count()),
        gauge("jobs_uncleared", "Jobs whose files should have been removed.", retention.count_overdue()),
        gauge("builds_broken", "Builds marked as broken.", Build.objects.filter(registry.BROKEN).count()),
    ]
    return metrics, sum(waiting.values()) + held


def _redis_metrics() -> tuple[list[Metric], int]:
    """Return the metrics of live workers, those that all processes share, and the number of slots. Two commands."""
    workers, stored = worker_heartbeats.simulation_workers(), shared_metrics.read()
    slots = worker_heartbeats.total_slots(workers)
    metrics: list[Metric] = [
        gauge("workers", "Live simulation workers.", len(workers)),
        gauge("slots", "Simulations that the live workers can run at once.", slots),
        _missing_protections(workers),
        *(
            shared.family(stored)
            for shared in (*counters.SHARED, shared_metrics.REDIS_FAILURES, clocks.WRONG_CLOCKS)
        ),
    ]
    return metrics, slots


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
