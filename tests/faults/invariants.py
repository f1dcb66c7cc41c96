"""What must hold after a run of the fault suite, whatever happened during it. Each part yields its violations."""

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby, pairwise

import psutil
from django.core.files.storage import default_storage
from django.db.models import Sum

from billing import ledger
from billing.models import Entry, Hold, Pocket
from jobs import holds
from jobs.lifecycle import TRANSITIONS
from jobs.models import HELD, TERMINAL, WAITING, Artifact, DailyUsage, IdempotencyKey, Job, JobEvent, Run, Status
from tests.faults.orchestra import Seen
from tests.faults.requests import HASTY_QUEUE_SECONDS
from tests.faults.workers import running

# Between the look at the queue and the time that an event tells lie two statements of a claim, or the rest of
# the transaction that made a job wait.
SLACK_SECONDS = 0.5
GONE_SECONDS = 10.0

History = list[JobEvent]


def histories() -> dict[int, History]:
    """Return every job's events in the order in which they were written; a job's row was locked for each."""
    events = JobEvent.objects.order_by("job_id", "id")
    return {job: list(own) for job, own in groupby(events, key=lambda event: event.job_id)}


def violations(seen: Seen) -> list[str]:
    """Return every violation of a run."""
    found = histories()
    return [
        *answers(seen),
        *ends(found),
        *bills(),
        *stale_writes(found),
        *order(seen, found),
        *files(),
    ]


def answers(seen: Seen) -> Iterator[str]:
    """Every submission made one job, and that has ended."""
    yield from seen.contradictions
    yield from (f"{death} died by itself" for death in seen.unexpected_deaths)
    made = dict(IdempotencyKey.objects.values_list("key", "job_id"))
    if made != {str(number): job for number, job in seen.accepted.items()}:
        yield "the answers to submissions and the stored jobs differ"
    if Job.objects.count() != len(seen.accepted) or len(seen.accepted) != seen.score.jobs:
        yield f"{seen.score.jobs} submissions, {len(seen.accepted)} accepted, {Job.objects.count()} jobs"
    for job in Job.objects.exclude(status__in=TERMINAL):
        yield f"job {job.pk} is lost: it is {job.status} at attempt {job.attempt}"


def ends(found: dict[int, History]) -> Iterator[str]:
    """Every history is one of the state machine's and has one end, at its end."""
    for job in Job.objects.all():
        history = found.get(job.pk, [])
        if sum(event.to_status in TERMINAL for event in history) != int(job.is_terminal):
            yield f"job {job.pk} has {[event.to_status for event in history]}"
        if not history or (history[-1].to_status, history[-1].attempt) != (job.status, job.attempt):
            yield f"job {job.pk} is not what its last event says"
        for event, following in pairwise(history):
            claim = following.to_status == Status.STARTING
            if (
                following.from_status != event.to_status
                or following.to_status not in TRANSITIONS.get(event.to_status, ())
                or following.attempt != event.attempt + claim
            ):
                yield f"job {job.pk} went from {event} ({event.attempt}) to {following} ({following.attempt})"


def bills() -> Iterator[str]:
    """Every job was settled and counted once, and the book is sound."""
    yield from map(str, ledger.verify())
    yield from holds.disagreements()
    ended = Job.objects.filter(status__in=TERMINAL)
    if Hold.objects.exclude(resolved_at=None).count() != ended.count():
        yield "there are not as many settlements as ends"
    paid = Counter(dict(spent_by_job()))
    for job in ended:
        if paid[job.pk] != job.credits_consumed:
            yield f"job {job.pk} cost {job.credits_consumed} and {paid[job.pk]} were spent on it"
    used = DailyUsage.objects.aggregate(jobs=Sum("jobs"), credits=Sum("credits"), sim_ms=Sum("sim_ms"))
    real = ended.aggregate(credits=Sum("credits_consumed"), sim_ms=Sum("sim_duration_ms"))
    if used != {"jobs": ended.count(), "credits": real["credits"], "sim_ms": real["sim_ms"]}:
        yield f"counted {used}, happened {ended.count()} times {real}"


def spent_by_job() -> Iterator[tuple[int, int]]:
    spent = Entry.objects.filter(target=Pocket.SPENT).values("job_id").annotate(total=Sum("credits"))
    yield from spent.values_list("job_id", "total")  # type: ignore[misc]


def stale_writes(found: dict[int, History]) -> Iterator[str]:
    """Nothing was written by an attempt that had been taken away, and results are those of the last one."""
    for job in Job.objects.prefetch_related("artifacts", "runs"):
        history = found.get(job.pk, [])
        over = {e.attempt: e.at for e in history if e.from_status in HELD and e.to_status not in HELD}
        claimed = {e.attempt: e.at for e in history if e.to_status == Status.STARTING}
        yield from (
            f"job {job.pk} ended at attempt {job.attempt} and has a file of attempt {artifact.attempt}"
            for artifact in job.artifacts.all()
            if artifact.attempt != job.attempt or not ran(job)
        )
        for run in job.runs.all():
            if run.ended_at is None or late(run, over.get(run.attempt)):
                yield f"run {run} of job {job.pk} was written after attempt {run.attempt} was over"
        yield from extensions(job, claimed, over)
        counted = [run for run in job.runs.all() if run.attempt == job.attempt and run.wall_ms is not None]
        if ran(job) and [run.wall_ms for run in counted] != [job.sim_duration_ms]:
            yield f"job {job.pk} ran {job.sim_duration_ms} ms, its run of attempt {job.attempt} did not"


def ran(job: Job) -> bool:
    """Tell whether the job's last attempt ran to its end."""
    return job.sim_duration_ms is not None


def late(run: Run, over_at: datetime | None) -> bool:
    """Tell whether a process's own end was written down after its attempt was over."""
    return run.wall_ms is not None and over_at is not None and (run.ended_at is None or run.ended_at > over_at)


def extensions(job: Job, claimed: dict[int, datetime], over: dict[int, datetime]) -> Iterator[str]:
    """Credits are held at submission, or by an attempt that has the job."""
    held = Entry.objects.filter(job_id=job.pk, target=Pocket.HELD).order_by("id").values_list("at", flat=True)
    first = held[0] if held else None
    for at in held:
        if at != first and not any(since <= at <= over.get(attempt, at) for attempt, since in claimed.items()):
            yield f"credits were held for job {job.pk} at {at}, when nobody had it"


def order(seen: Seen, found: dict[int, History]) -> Iterator[str]:
    """A better job that waited is never passed over.

    Judged from the times of the events: a job that waited from half a second before another was claimed until
    half a second after it was passed over. A claim does so rightly when the row is locked at that moment, so as
    many are forgiven as processes stood still within a transaction then.
    """
    patient = Job.objects.exclude(ceiling_queue_seconds=HASTY_QUEUE_SECONDS)
    rank = {pk: (priority, pk) for pk, priority in patient.values_list("id", "priority")}
    waits = [(rank[job], *wait) for job, history in found.items() if job in rank for wait in waits_of(history)]
    ranks = dict(Job.objects.values_list("id", "priority"))
    for job, history in found.items():
        for event in history:
            if event.to_status != Status.STARTING:
                continue
            at = event.at.timestamp()
            passed = [
                better
                for better, since, until in waits
                if since < at - SLACK_SECONDS and until > at + SLACK_SECONDS and better < (ranks[job], job)
            ]
            locked = sum(since - SLACK_SECONDS < at < until + SLACK_SECONDS for since, until in seen.locked)
            if len(passed) > locked:
                yield f"job {job} was claimed at {event.at} before {passed}; {locked} rows may have been locked"


def waits_of(history: History) -> Iterator[tuple[float, float]]:
    """Yield from when to when a job waited; an announcement does not interrupt the wait."""
    since: float | None = None
    for event in history:
        if event.to_status in WAITING:
            since = since if since is not None else event.at.timestamp()
        elif since is not None:
            yield since, event.at.timestamp()
            since = None
    if since is not None:
        yield since, float("inf")


def files() -> Iterator[str]:
    """Every row of an artifact has its file, and a file without a row is of an attempt that was lost."""
    for artifact in Artifact.objects.all():
        if not default_storage.exists(artifact.storage_name):
            yield f"the file of {artifact} is gone"
    counting = set(Job.objects.exclude(sim_duration_ms=None).values_list("id", "attempt"))
    for name in orphans():
        job, attempt, _ = name.rpartition("/")[2].split("-", 2)
        if (int(job), int(attempt)) in counting:
            yield f"no row names {name}, which the attempt that counts left"


def orphans() -> list[str]:
    """Return the stored files that no row names: what killed workers left of attempts that were lost."""
    named = set(Artifact.objects.values_list("storage_name", flat=True))
    kept = []
    for job in Job.objects.values_list("id", flat=True):
        folder = f"{str(job)[:5]}/{str(job)[5:8]}"
        if folder not in kept:
            kept.append(folder)
    return [
        f"{folder}/{name}"
        for folder in kept
        if default_storage.exists(folder)
        for name in default_storage.listdir(folder)[1]
        if f"{folder}/{name}" not in named
    ]


def simulators_left(executable: object) -> list[psutil.Process]:
    """Return the simulators that live on, after those whose worker was killed just now had time to go."""
    from pathlib import Path

    deadline = time.monotonic() + GONE_SECONDS
    while (left := running(Path(str(executable)))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
