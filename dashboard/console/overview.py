"""Live overview of the service: queue, workers, builds, errors and webhooks."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.contrib import admin
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.jobs.overview import lanes_of
from jobs import registry
from jobs.enums import CLAIMED
from jobs.lifecycle import job_moves
from jobs.models import Build, Job
from jobs.queue import announcements, forecast
from jobs.results import queries
from sandbox import layers
from simservice import worker_heartbeats
from simservice.redis.client import best_effort
from simservice.worker_heartbeats import ALIVE_SECONDS
from webhooks import endpoints, events

MAX_ROWS = 10
MAX_COUNTED = 10_000
DISABLED_WITHIN = timedelta(days=1)


class Worker(NamedTuple):
    """A simulation worker: how many jobs it runs at once, and the protections that its sandbox lacks.

    `silent_seconds` is the time since its last heartbeat, 0 if it is live.
    """

    name: str
    slots: int
    lacking: list[str]
    silent_seconds: int
    # Why it claims no jobs; empty if it does.
    problem: str = ""


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Show the state of the service, as far as the user may view its parts. The page refreshes itself."""
    context = {**admin.site.each_context(request), "title": "Live overview", "now": timezone.now()}
    for permission, read in PARTS:
        context |= read() if request.user.has_perm(permission) else {}
    return render(request, "admin/console/overview.html", context)


def _queue() -> dict[str, Any]:
    """Return the queue, the workers, the jobs that need attention, and how many ended with each error recently."""
    snapshot = forecast.current()
    ended = Job.objects.filter(queries.RECENT_ERROR).values_list("error_code")
    return {
        "lanes": lanes_of(snapshot) if snapshot else [],
        "oldest_age": timedelta(seconds=snapshot.oldest_wait_seconds) if snapshot else None,
        "queue_as_of": datetime.fromtimestamp(snapshot.taken_at, UTC) if snapshot else None,
        "workers": (workers := _workers()),
        "slots": sum(worker.slots for worker in workers or [] if not worker.silent_seconds),
        "claimed": Job.objects.filter(status__in=CLAIMED).count(),
        "stalled": Job.objects.filter(job_moves.STALLED).count(),
        "unannounced": announcements.unannounced()[: MAX_COUNTED + 1].count(),
        "max_counted": MAX_COUNTED,
        "errors": list(ended.annotate(count=Count("pk")).order_by("-count", "error_code")),
    }


def _workers() -> list[Worker] | None:
    """Return the simulation workers of the last minute; None if Redis does not respond.

    Those that no longer respond come first, then those with the weakest sandbox.
    """
    found = best_effort(worker_heartbeats.last_seen, default=None)
    if found is None:
        return None
    silent = {each: int(age) for each, age in found.items() if age > ALIVE_SECONDS}
    live = {each.name for each in found.keys() - silent.keys()}
    problems = best_effort(lambda: worker_heartbeats.problems_of(found), default=dict[str, str]())
    workers = [
        Worker(each.name, each.slots, layers.missing(each.layers), silent.get(each, 0), problems.get(each.name, ""))
        for each in found
        # A restarted worker can have other slots or layers.
        if each not in silent or each.name not in live
    ]
    return sorted(workers, key=lambda worker: (-worker.silent_seconds, -len(worker.lacking), worker.name))


def _builds() -> dict[str, Any]:
    broken = Build.objects.filter(registry.BROKEN).defer("profiles", "includable").order_by("-created_at")
    return {"builds": registry.current(), "broken": list(broken[: MAX_ROWS + 1]), "max_rows": MAX_ROWS}


def _webhooks() -> dict[str, Any]:
    """Return due events, the endpoints that have failed longest, and those disabled for it."""
    failing = endpoints.failing().select_related("client__account").order_by("failing_since")
    disabled = endpoints.disabled_for_failing(within=DISABLED_WITHIN).select_related("client__account")
    return {
        "backlog": events.backlog(limit=MAX_COUNTED + 1),
        "max_counted": MAX_COUNTED,
        "failing": list(failing[: MAX_ROWS + 1]),
        "disabled": list(disabled.order_by("-disabled_at")[: MAX_ROWS + 1]),
        "max_rows": MAX_ROWS,
    }


# The parts of the page, each with the permission that it needs
PARTS: tuple[tuple[str, Callable[[], dict[str, Any]]], ...] = (
    ("jobs.view_job", _queue),
    ("jobs.view_build", _builds),
    ("webhooks.view_endpoint", _webhooks),
)
