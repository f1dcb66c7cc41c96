"""Live overview of the service: queue, workers, builds, errors and webhooks."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from django.contrib import admin
from django.db.models import Count
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.overview import lanes_of
from jobs import lifecycle
from jobs.builds import registry
from jobs.enums import CLAIMED
from jobs.models import Build, Job
from jobs.queueing import announcements, forecast
from jobs.simulator import layers
from simservice.redis import worker_heartbeats
from simservice.redis.client import best_effort
from webhooks import endpoints, events

RECENT = timedelta(hours=1)
MAX_ROWS = 10


class Node(NamedTuple):
    """A simulation machine: its slots, its claimed jobs and shards, and the protections that its sandbox lacks.

    Without a heartbeat, it has no slots: its jobs return to the queue when their leases expire.
    """

    host: str
    slots: int
    jobs: int
    lacking: list[str]


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Show the state of the service, as far as the user may view its parts. The page refreshes itself."""
    parts = [read() for permission, read in PARTS if request.user.has_perm(permission)]
    context: dict[str, Any] = {"title": "Live overview", "now": timezone.now(), "recent": RECENT}
    for part in (admin.site.each_context(request), *parts):
        context |= part
    return render(request, "admin/console/overview.html", context)


def _queue() -> dict[str, Any]:
    """Return the queue, the workers and the jobs that need attention. Three queries and two requests to Redis."""
    snapshot = forecast.current()
    claimed = Job.objects.filter(status__in=CLAIMED)
    return {
        "lanes": lanes_of(snapshot) if snapshot else [],
        "oldest_wait": timedelta(seconds=snapshot.oldest_wait_seconds) if snapshot else None,
        "nodes": _nodes(),
        "stalled": claimed.filter(lifecycle.LEASE_EXPIRED).count(),
        "unannounced": announcements.unannounced().count(),
    }


def _nodes() -> list[Node] | None:
    """Return the simulation machines, those with problems first; None if Redis does not respond."""
    workers = best_effort(worker_heartbeats.simulation_workers, default=None)
    if workers is None:
        return None
    names = Job.objects.filter(status__in=CLAIMED).values_list("worker", flat=True)
    jobs = Counter(name.partition(":")[0] for name in names)
    slots, lacking = Counter[str](), {}
    for worker in workers:
        host = worker.name.removeprefix(worker_heartbeats.SIMULATION)
        slots[host] += worker.slots
        lacking[host] = layers.missing(worker.layers)
    nodes = [Node(host, slots[host], jobs[host], lacking.get(host, [])) for host in {*slots, *jobs}]
    return sorted(nodes, key=lambda node: (bool(node.slots), not node.lacking, node.host))


def _errors() -> dict[str, Any]:
    """Return how many jobs ended with each error code recently. One query."""
    ended = Job.objects.filter(completed_at__gte=Now() - RECENT, error_code__isnull=False)
    counts = ended.values_list("error_code").annotate(count=Count("pk")).order_by("-count", "error_code")
    return {"errors": list(counts)}


def _builds() -> dict[str, Any]:
    """Return the builds of the channels, and broken ones. Three queries."""
    broken = Build.objects.filter(registry.BROKEN).defer("profiles", "includable")
    return {"builds": registry.current(), "broken": list(broken.order_by("-created_at")[:MAX_ROWS])}


def _webhooks() -> dict[str, Any]:
    """Return due events, and the endpoints that have failed longest. Two queries."""
    failing = endpoints.failing().select_related("client__account").order_by("failing_since")
    return {"backlog": events.backlog(), "failing": list(failing[: MAX_ROWS + 1]), "max_rows": MAX_ROWS}


# The parts of the page, each with the permission that it needs
PARTS: tuple[tuple[str, Callable[[], dict[str, Any]]], ...] = (
    ("jobs.view_job", _queue),
    ("jobs.view_job", _errors),
    ("jobs.view_build", _builds),
    ("webhooks.view_endpoint", _webhooks),
)
