"""What must hold after a run of the fault suite, whatever happened during it. Each part yields its violations."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from pathlib import Path

import psutil
from django.core.files.storage import default_storage
from django.db import connection
from django.db.models import Sum

from billing import ledger
from billing.models import Entry, Hold, Pocket
from jobs import hold_audit
from jobs.enums import HELD, TERMINAL, WAITING, Status
from jobs.lifecycle import TRANSITIONS
from jobs.models import Artifact, DailyUsage, IdempotencyKey, Job, JobEvent, Run
from tests.faults.actors import SEEN
from tests.faults.orchestra import Seen
from tests.faults.requests import HASTY_QUEUE_SECONDS
from tests.faults.workers import running

# Between the fault that makes a process stand still and the end of its locks.
SLACK_SECONDS = 1.0
GONE_SECONDS = 10.0

# For each claim the last event before it that made the job wait or wrote it while it did. A row's `xmin` is the
# number of the transaction, or of the part of one, that wrote it.
CLAIMS = """
    SELECT claim.job_id, job.priority, extract(epoch FROM claim.at)::float, claim.xmin::text::bigint,
        split_part(claim.reason, %s, 2), wait.number
    FROM jobs_jobevent AS claim JOIN jobs_job AS job ON job.id = claim.job_id
    CROSS JOIN LATERAL (
        SELECT max(xmin::text::bigint) AS number FROM jobs_jobevent
        WHERE job_id = claim.job_id AND id < claim.id AND to_status = ANY(%s)
            AND attempt = claim.attempt - 1
    ) AS wait
    WHERE claim.to_status = 'starting' AND job.ceiling_queue_seconds <> %s AND wait.number IS NOT NULL
    ORDER BY claim.id
"""

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
        *order(seen),
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
    yield from hold_audit.disagreements()
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
            if artifact.attempt != job.attempt or not (ran(job) or job.error_code == "internal")
        )
        for run in job.runs.all():
            if run.ended_at is None or late(run, over.get(run.attempt)):
                yield f"run {run} of job {job.pk} was written after attempt {run.attempt} was over"
        yield from extensions(job, claimed, over)
        counted = [run.wall_ms for run in job.runs.all() if run.attempt == job.attempt and run.wall_ms is not None]
        if ran(job) and sum(counted) != job.sim_duration_ms:
            yield f"job {job.pk} ran {job.sim_duration_ms} ms, its runs of attempt {job.attempt} did not"


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


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A job's claim: its place in the order, and transactions by their numbers, which count up.

    `waited` made the job wait, or announced it, last before; those below `saw` had ended when the claim looked for
    the best job; `number` is the claim's own.
    """

    job: int
    rank: tuple[int, int]
    at: float
    number: int
    saw: int
    waited: int

    def was_there_for(self, other: "Claim") -> bool:
        """Tell whether this job waited, unclaimed, when somebody made another claim."""
        return self.waited < other.saw and other.number < self.saw


def claims() -> list[Claim]:
    """Return all claims of jobs that wait for long, in the order in which they were made."""
    with connection.cursor() as cursor:
        cursor.execute(CLAIMS, [SEEN, list(WAITING), HASTY_QUEUE_SECONDS])
        rows = cursor.fetchall()
    return [
        Claim(job=job, rank=(priority, job), at=at, number=number, saw=int(saw), waited=waited)
        for job, priority, at, number, saw, waited in rows
    ]


def choices() -> int:
    """Return how often one of two jobs that both waited was claimed: how often the order could be judged."""
    made = claims()
    return sum(other.was_there_for(claim) for claim in made for other in made)


def order(seen: Seen) -> Iterator[str]:
    """A better job that waited is never passed over.

    Judged without clocks: a claim is wrong when a better job had been waiting, and not been written since, in a
    transaction that had ended before the claim looked, and when that better job was claimed by somebody who
    looked after the wrong claim had ended. A claim passes over a row that is locked at that moment, so as many are
    forgiven as processes stood still within a transaction then.
    """
    made = claims()
    for claim in made:
        passed = [other.job for other in made if other.rank < claim.rank and other.was_there_for(claim)]
        locked = sum(since - SLACK_SECONDS < claim.at < until + SLACK_SECONDS for since, until in seen.locked)
        if len(passed) > locked:
            yield f"job {claim.job} was claimed before {passed}; {locked} rows may have been locked"


def files() -> Iterator[str]:
    """Every row of an artifact has its file, and a file without a row is of an attempt that was lost."""
    for artifact in Artifact.objects.all():
        if not default_storage.exists(artifact.storage_name):
            yield f"the file of {artifact} is gone"
    counting = set(Job.objects.exclude(sim_duration_ms=None).values_list("id", "attempt"))
    for name in orphans():
        job, attempt, _ = name.rpartition("/")[2].split("-", 2)
        if (int(job), int(attempt.partition(".")[0])) in counting:
            yield f"no row names {name}, which the attempt that counts left"


def orphans() -> list[str]:
    """Return these jobs' stored files that no row names: what killed workers left of attempts that were lost."""
    named = set(Artifact.objects.values_list("storage_name", flat=True))
    jobs = {str(job) for job in Job.objects.values_list("id", flat=True)}
    folders = {f"{job[:5]}/{job[5:8]}" for job in jobs}
    kept = [
        f"{folder}/{name}"
        for folder in folders
        if default_storage.exists(folder)
        for name in default_storage.listdir(folder)[1]
        if name.partition("-")[0] in jobs
    ]
    return [name for name in kept if name not in named]


def simulators_left(executable: Path) -> list[psutil.Process]:
    """Return the simulators that live on, after those whose worker was killed just now had time to go."""
    deadline = time.monotonic() + GONE_SECONDS
    while (left := running(executable)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
