"""The timeline of a job: everything that is recorded about it, in order of time, for the admin."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Max, Min, Model, Q, QuerySet, Sum

from billing.models import Entry
from clients.models import AuditEvent
from jobs.models import Artifact, Build, Job, JobEvent, Run
from jobs.results import labels
from sandbox import layers
from webhooks.models import Delivery, Event

# The latest records of each kind only, because a job can have thousands of failed runs
MAX_OF_A_KIND = 200
SUCCESSFUL = Q(exit_code="0", stopped_for="")


class TimelineEntry(NamedTuple):
    """Something that happened to a job, and the object with more about it, if there is one."""

    at: datetime
    kind: str
    text: str
    subject: Model | None = None


class TimedEntry(NamedTuple):
    """An entry, and the time since the one before it."""

    entry: TimelineEntry
    since_last: timedelta


class JobTimeline(NamedTuple):
    """The entries of a job, oldest first, and whether older records were left out."""

    entries: list[TimedEntry]
    is_shortened: bool


def timeline_of(job: Job, *, may_view: Callable[[type[Model]], bool]) -> JobTimeline:
    """Return the timeline of a job from the records that the reader may view.

    `job` is loaded with its client and API key. Entries of the same time are in the order of `SOURCES`.
    """
    entries, is_shortened = list(_of_job(job)), False
    if may_view(Run):
        entries += _of_stages(job)
    for rows_of, entries_of in SOURCES:
        rows = rows_of(job)
        if may_view(rows.model):
            latest = list(rows.order_by("-pk")[: MAX_OF_A_KIND + 1])
            is_shortened |= len(latest) > MAX_OF_A_KIND
            entries += entries_of(latest[MAX_OF_A_KIND - 1 :: -1])
    entries.sort(key=lambda entry: entry.at)
    gaps = [after.at - before.at for before, after in pairwise(entries)]
    return JobTimeline([*map(TimedEntry, entries, [timedelta(), *gaps])], is_shortened)


def _of_job(job: Job) -> Iterator[TimelineEntry]:
    """Yield what the job itself records."""
    source = f"key {job.api_key}" if job.api_key else "the dashboard"
    yield TimelineEntry(job.created_at, "job", f"Submitted by {source} for client {job.client.name}", job.api_key)
    if job.cancel_requested_at:
        yield TimelineEntry(job.cancel_requested_at, "job", "Cancellation requested")
    if job.cleared_at:
        yield TimelineEntry(job.cleared_at, "job", "Files and profile removed at the end of the retention period")


def _of_changes(changes: list[JobEvent]) -> Iterator[TimelineEntry]:
    """Yield the changes of the status, except the submission, which the job itself records."""
    for change in changes:
        reason = f" ({change.reason.removeprefix('claimed by ')})" if change.reason else ""
        if change.from_status:
            yield TimelineEntry(change.at, "status", f"{labels.event(change)}{reason}")


def _of_audit(events: list[AuditEvent]) -> Iterator[TimelineEntry]:
    for event in events:
        change = event.action.removeprefix("job.").capitalize()
        yield TimelineEntry(event.at, "audit", f"{change} by {event.actor}", event)


def _of_stages(job: Job) -> Iterator[TimelineEntry]:
    """Yield the first start and the last end of several successful runs of a stage."""
    runs = Run.objects.filter(SUCCESSFUL, job=job).order_by()
    stages = runs.values("attempt", "stage", "build", "build__git_branch", "build__commit")
    for stage in stages.annotate(
        count=Count("pk"),
        slots=Count("seat", distinct=True),
        start=Min("started_at"),
        end=Max("ended_at"),
        ms=Sum("wall_ms", default=0),
        memory=Max("peak_memory_bytes", default=0),
        layers=ArrayAgg("sandbox_layers", distinct=True),
    ).filter(count__gt=1):
        build = Build(pk=stage["build"], git_branch=stage["build__git_branch"], commit=stage["build__commit"])
        name = f"Attempt {stage['attempt']}, stage {stage['stage']}"
        of = f"of {stage['count']:,} successful simulators"
        text = f"{name}: first {of} started on {build}, slots used: {stage['slots']}"
        yield TimelineEntry(stage["start"], "run", text, build)
        text = f"{name}: last {of} ended, {stage['ms'] / 1000:,.1f} s in total"
        used = f"at most {stage['memory'] / 2**20:,.0f} MiB{_lacking(*stage['layers'])}"
        yield TimelineEntry(stage["end"], "run", f"{text}, {used}")


def _other_runs(job: Job) -> QuerySet[Run]:
    """Return the runs that are listed one by one: unsuccessful ones, and the only successful one of a stage."""
    runs = Run.objects.filter(job=job)
    stages = runs.filter(SUCCESSFUL).order_by().values("attempt", "stage", "build")
    alone = stages.annotate(count=Count("pk"), only=Max("pk")).filter(count=1).values("only")
    return runs.filter(~SUCCESSFUL | Q(pk__in=alone)).select_related("build")


def _of_runs(runs: list[Run]) -> Iterator[TimelineEntry]:
    for run in runs:
        yield from _of_run(run)


def _of_run(run: Run) -> Iterator[TimelineEntry]:
    name = f"Attempt {run.attempt}, stage {run.stage}, shard {run.shard}, try {run.try_number}"
    yield TimelineEntry(
        run.started_at, "run", f"{name}: simulator started on {run.build}, slot {run.seat}", run.build
    )
    if run.ended_at:
        yield TimelineEntry(run.ended_at, "run", f"{name}: simulator ended, {_end_of(run)}")


def _end_of(run: Run) -> str:
    """Return how a process ended, what it used, and the protections of the sandbox that it lacked."""
    duration = f" after {run.wall_ms / 1000:,.1f} s" if run.wall_ms is not None else ""
    memory = f", {run.peak_memory_bytes / 2**20:,.0f} MiB" if run.peak_memory_bytes else ""
    return f"{labels.end_of(run)}{duration}{memory}{_lacking(run.sandbox_layers)}"


def _lacking(*sandboxes: list[str]) -> str:
    """Return the protections that any of the sandboxes lacked; a run that has not ended has no layers yet."""
    lacking = {name for active in sandboxes if active for name in layers.missing(active)}
    return f", without {', '.join(sorted(lacking))}" if lacking else ""


def _of_artifacts(artifacts: list[Artifact]) -> Iterator[TimelineEntry]:
    """Yield artifacts without their tokens, which would allow downloads."""
    for artifact in artifacts:
        stage = f" of stage {artifact.stage}" if artifact.stage else ""
        name = labels.ARTIFACTS[Artifact.Kind(artifact.kind)]
        yield TimelineEntry(artifact.created_at, "file", f"{name}{stage} stored, {artifact.bytes:,} bytes")


def _of_entries(entries: list[Entry]) -> Iterator[TimelineEntry]:
    for entry in entries:
        reason = f" ({entry.reason})" if entry.reason else ""
        text = f"{entry.credits:,} credits, {entry.source} → {entry.target}{reason}"
        yield TimelineEntry(entry.at, "credits", text, entry)


def _of_events(events: list[Event]) -> Iterator[TimelineEntry]:
    for event in events:
        state = f"{event.state} ({event.failure})" if event.failure else event.state
        yield TimelineEntry(event.created_at, "webhook", f"Webhook event created, now {state}", event)


def _of_deliveries(deliveries: list[Delivery]) -> Iterator[TimelineEntry]:
    for delivery in deliveries:
        answer = f"status {delivery.status}" if delivery.status else delivery.problem or "no response yet"
        duration = f" in {delivery.duration_ms:,} ms" if delivery.duration_ms is not None else ""
        text = f"Delivery {delivery.outcome}: {answer}{duration}"
        yield TimelineEntry(delivery.started_at, "webhook", text, delivery)


# How the records of a job are found, and which entries they contain
SOURCES: tuple[tuple[Callable[[Job], QuerySet[Any]], Callable[[list[Any]], Iterator[TimelineEntry]]], ...] = (
    (lambda job: Entry.objects.filter(job_id=job.pk), _of_entries),
    (lambda job: AuditEvent.objects.filter(action__startswith="job.", target_id=job.pk), _of_audit),
    (lambda job: JobEvent.objects.filter(job=job), _of_changes),
    (_other_runs, _of_runs),
    (lambda job: Artifact.objects.filter(job=job), _of_artifacts),
    (lambda job: Event.objects.filter(job_id=job.pk).defer("body"), _of_events),
    (lambda job: Delivery.objects.filter(event__job_id=job.pk).defer("excerpt"), _of_deliveries),
)
