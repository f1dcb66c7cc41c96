"""The story of a job: everything that is recorded about it, in order of time, for the admin."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain, pairwise
from typing import NamedTuple

from django.db.models import Model

from billing.models import Entry
from jobs.models import Artifact, Job, JobEvent, Run
from webhooks.models import Delivery, Event

# The latest records of each kind, because a job can have thousands of runs.
MAX_OF_A_KIND = 200


class Moment(NamedTuple):
    """Something that happened to a job. `subject` has a page in the admin, or is None."""

    at: datetime
    kind: str
    text: str
    subject: Model | None = None


class Step(NamedTuple):
    """A moment, and the time since the one before it."""

    moment: Moment
    since_last: timedelta


def story_of(job: Job) -> list[Step]:
    """Return the steps of a job, oldest first. Six queries."""
    moments = sorted(
        chain(_submission(job), _moves(job), _runs(job), _entries(job), _artifacts(job), _webhook(job)),
        key=lambda moment: moment.at,
    )
    first = [Step(moments[0], timedelta())]
    return first + [Step(after, after.at - before.at) for before, after in pairwise(moments)]


def _submission(job: Job) -> Iterator[Moment]:
    source = f"key {job.api_key}" if job.api_key else "the dashboard"
    yield Moment(job.created_at, "submission", f"Submitted to client {job.client.name} with {source}.", job.api_key)
    if job.cancel_requested_at:
        yield Moment(job.cancel_requested_at, "cancellation", "Cancellation requested.")
    if job.cleared_at:
        yield Moment(job.cleared_at, "retention", "Files and profile removed.")


def _moves(job: Job) -> Iterator[Moment]:
    for event in JobEvent.objects.filter(job=job).order_by("-id")[:MAX_OF_A_KIND]:
        change = f"{event.from_status} → {event.to_status}" if event.from_status else event.to_status
        attempt = f", attempt {event.attempt}" if event.attempt else ""
        yield Moment(event.at, "status", f"{change}{attempt}{f': {event.reason}' if event.reason else ''}")


def _runs(job: Job) -> Iterator[Moment]:
    runs = Run.objects.filter(job=job).select_related("build").order_by("-id")[:MAX_OF_A_KIND]
    for run in runs:
        name = f"Simulator {run.attempt}.{run.stage}.{run.shard}, try {run.try_number}"
        yield Moment(run.started_at, "run", f"{name}: started on {run.build}.", run.build)
        if run.ended_at:
            yield Moment(run.ended_at, "run", f"{name}: {_end_of(run)}.")


def _end_of(run: Run) -> str:
    """Return how a run ended, and what it used."""
    if run.wall_ms is None:
        return "lost with its worker"
    end = f"stopped ({run.stopped_for})" if run.stopped_for else f"exit code {run.exit_code}"
    memory = f", {run.peak_memory_bytes / 2**20:,.0f} MiB" if run.peak_memory_bytes else ""
    return f"{end} after {run.wall_ms / 1000:,.1f} s{memory}"


def _entries(job: Job) -> Iterator[Moment]:
    for entry in Entry.objects.filter(job_id=job.pk).order_by("-id")[:MAX_OF_A_KIND]:
        reason = f" ({entry.reason})" if entry.reason else ""
        yield Moment(entry.at, "credits", f"{entry.credits:,} credits: {entry.source} → {entry.target}{reason}.", entry)


def _artifacts(job: Job) -> Iterator[Moment]:
    """Yield the artifacts without their tokens, which would allow downloads."""
    for artifact in Artifact.objects.filter(job=job).order_by("-id")[:MAX_OF_A_KIND]:
        stage = f" of stage {artifact.stage}" if artifact.stage else ""
        yield Moment(artifact.created_at, "artifact", f"{artifact.kind}{stage} stored, {artifact.bytes:,} bytes.")


def _webhook(job: Job) -> Iterator[Moment]:
    event = Event.objects.filter(job_id=job.pk).defer("body").first()
    if event is None:
        return
    state = f"{event.state} ({event.failure})" if event.failure else event.state
    yield Moment(event.created_at, "webhook", f"Event {event.name} created; it is {state} now.", event)
    for delivery in Delivery.objects.filter(event=event).order_by("-id")[:MAX_OF_A_KIND]:
        yield Moment(delivery.started_at, "webhook", _outcome_of(delivery), delivery)


def _outcome_of(delivery: Delivery) -> str:
    answer = f"status {delivery.status}" if delivery.status else delivery.problem or "no answer yet"
    duration = f" in {delivery.duration_ms:,} ms" if delivery.duration_ms is not None else ""
    return f"Delivery {delivery.name}: {delivery.outcome}, {answer}{duration}."
