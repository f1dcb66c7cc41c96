"""Live overview of the service: its jobs, the last hour, workers, systems, builds and webhooks."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.console import systems
from dashboard.console.builds import current_builds
from dashboard.jobs.overview import lanes_of
from jobs import registry
from jobs.enums import CLAIMED, Status
from jobs.execution.machine import DRAINED
from jobs.failure_causes import Fault
from jobs.lifecycle import job_moves
from jobs.live.progress import percents_of
from jobs.models import Build, Job
from jobs.operations import last_hour
from jobs.queue import announcements, forecast
from sandbox import layers
from simservice import worker_heartbeats
from simservice.postgresql.connections import StatementTimeout, statement_timeout
from simservice.redis.client import best_effort
from simservice.worker_heartbeats import ALIVE_SECONDS
from webhooks import endpoints, events

MAX_ROWS = 10
MAX_RUNNING = 20
MAX_COUNTED = 10_000
DISABLED_WITHIN = timedelta(days=1)
# The page refreshes itself, so a slow query of one refresh must not meet the next one.
LAST_HOUR_TIMEOUT_MS = 2_000
FAULTS = {
    Fault.SERVICE: "Service",
    Fault.SIMULATOR: "Simulator",
    Fault.USER: "User",
}
# Height of a sparkline in the units of its drawing, which is as wide as it has intervals
SPARK_HEIGHT = 20


class Worker(NamedTuple):
    """A simulation worker: how many jobs it runs at once, and the protections that its sandbox lacks.

    `silent_seconds` is the time since its last heartbeat, 0 if it is live.
    """

    name: str
    slots: int
    lacking: list[str]
    silent_seconds: int
    # Why it takes no jobs; empty if it does.
    problem: str = ""

    @property
    def is_drained(self) -> bool:
        return self.problem == DRAINED


class Spark(NamedTuple):
    """A small chart of the last hour: the points of its line and of the area below it, and its largest value."""

    points: str
    area: str
    width: int
    largest: float
    height: int = SPARK_HEIGHT


class FaultRow(NamedTuple):
    """The errors of the last hour with one fault, by error code."""

    label: str
    jobs: int
    codes: list[tuple[str, int]]
    spark: Spark


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Show the state of the service, as far as the user may view its parts. The page refreshes itself."""
    context = {**admin.site.each_context(request), "title": "Live overview", "now": timezone.now()}
    for permission, read in PARTS:
        context |= read() if request.user.has_perm(permission) else {}
    return render(request, "console/live.html", context)


def _queue() -> dict[str, Any]:
    """Return the queue, the workers, the running jobs, and those that need attention."""
    snapshot = forecast.current()
    workers = _workers()
    claimed = _claimed()
    slots = sum(worker.slots for worker in workers or [] if not worker.silent_seconds)
    helping = forecast.helpers().count()
    return {
        "lanes": lanes_of(snapshot) if snapshot else [],
        "oldest_age": timedelta(seconds=snapshot.oldest_wait_seconds) if snapshot else None,
        "queue_as_of": datetime.fromtimestamp(snapshot.taken_at, UTC) if snapshot else None,
        "waiting": sum(snapshot.waiting.values()) if snapshot else None,
        "workers": workers,
        "slots": slots,
        "free_slots": None if workers is None else max(0, slots - sum(claimed["by_status"].values()) - helping),
        "helping": helping,
        "claimed": sum(claimed["by_status"].values()),
        "starting": claimed["by_status"].get(Status.STARTING, 0),
        "running": claimed["rows"],
        "max_running": MAX_RUNNING,
        "stalled": Job.objects.filter(job_moves.STALLED).count(),
        "unannounced": announcements.unannounced()[: MAX_COUNTED + 1].count(),
        "max_counted": MAX_COUNTED,
        **systems.state(),
    }


def _claimed() -> dict[str, Any]:
    """Return how many jobs are starting and running, and the oldest of them with their progress."""
    claimed = Job.objects.filter(status__in=CLAIMED)
    statuses = list(claimed.values_list("status", flat=True)[: MAX_COUNTED + 1])
    oldest = list(claimed.select_related("account").defer("summary").order_by("id")[:MAX_RUNNING])
    return {
        "by_status": {status: statuses.count(status) for status in CLAIMED},
        "rows": list(zip(oldest, percents_of(oldest), strict=True)),
    }


def _last_hour() -> dict[str, Any]:
    """Return throughput, waits and errors of the last hour; none of them if reading takes too long."""
    try:
        with statement_timeout(LAST_HOUR_TIMEOUT_MS):
            hour = last_hour.read()
    except StatementTimeout:
        return {"hour": None, "is_too_slow": True}
    return {
        "hour": hour,
        "ended_spark": spark(hour.ended),
        "wait_spark": spark(hour.waits),
        "mean_wait": timedelta(seconds=hour.mean_wait),
        "interval_minutes": last_hour.INTERVAL_SECONDS // 60,
        "faults": [
            FaultRow(
                label,
                sum(hour.errors_by_fault[fault]),
                [(code, count) for code, count in _sorted(hour.errors) if last_hour.fault_of(code) is fault],
                spark(hour.errors_by_fault[fault]),
            )
            for fault, label in FAULTS.items()
        ],
    }


def _sorted(errors: dict[str, int]) -> list[tuple[str, int]]:
    """Return error codes with their counts, the most frequent first."""
    return sorted(errors.items(), key=lambda error: (-error[1], error[0]))


def spark(values: Sequence[float]) -> Spark:
    """Return a chart of values, which starts at 0."""
    largest = max(values, default=0)
    scale = (SPARK_HEIGHT - 2) / largest if largest else 0
    points = " ".join(f"{x},{SPARK_HEIGHT - 1 - value * scale:.1f}" for x, value in enumerate(values))
    width = max(1, len(values) - 1)
    return Spark(points, f"0,{SPARK_HEIGHT} {points} {width},{SPARK_HEIGHT}", width, largest)


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
    return {"builds": current_builds(), "broken": list(broken[: MAX_ROWS + 1]), "max_rows": MAX_ROWS}


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
    ("jobs.view_job", _last_hour),
    ("jobs.view_build", _builds),
    ("webhooks.view_endpoint", _webhooks),
)
