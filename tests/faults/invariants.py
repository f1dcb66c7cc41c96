"""Invariants of a fault run. Each function yields the violations that it finds."""

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
from jobs.enums import CLAIMED, TERMINAL, WAITING, Status
from jobs.lifecycle.transitions import JobMove
from jobs.models import Artifact, DailyUsage, IdempotencyKey, Job, JobEvent, Run
from jobs.operations import hold_audit
from tests.faults import shard_audit
from tests.faults.fault_run import Observations
from tests.faults.fault_workers import SNAPSHOT_MARK
from tests.faults.processes import running
from tests.faults.requests import SHORT_QUEUE_SECONDS

# Between the fault that pauses a process and the release of its locks.
SLACK_SECONDS = 1.0
EXIT_SECONDS = 10.0

# For each claim the last event before it that left the job waiting. A row's `xmin` is the number of the
# (sub)transaction that wrote it.
CLAIMS = """
    SELECT claim.job_id, job.priority, extract(epoch FROM claim.at)::float, claim.xmin::text::bigint,
        split_part(claim.reason, %s, 2), wait.number
    FROM jobs_jobevent AS claim JOIN jobs_job AS job ON job.id = claim.job_id
    CROSS JOIN LATERAL (
        SELECT max(xmin::text::bigint) AS number FROM jobs_jobevent
        WHERE job_id = claim.job_id AND id < claim.id AND to_status = ANY(%s)
            AND attempt = claim.attempt - 1
    ) AS wait
    WHERE claim.to_status = 'starting' AND claim.from_status <> 'starting' AND job.ceiling_queue_seconds <> %s
        AND wait.number IS NOT NULL
    ORDER BY claim.id
"""

History = list[JobEvent]


def histories() -> dict[int, History]:
    """Return each job's events in order of writing; each was written under a lock of the job's row."""
    events = JobEvent.objects.order_by("job_id", "id")
    return {job: list(own) for job, own in groupby(events, key=lambda event: event.job_id)}


def violations(observed: Observations) -> list[str]:
    """Return all violations of a run."""
    events = histories()
    return [
        *submission_violations(observed),
        *history_violations(events),
        *billing_violations(),
        *fencing_violations(events),
        *order_violations(observed),
        *file_violations(),
    ]


def submission_violations(observed: Observations) -> Iterator[str]:
    """Yield the submissions without exactly one job, and the jobs that have not ended."""
    yield from observed.contradictions
    yield from (f"{death} died by itself" for death in observed.unexpected_deaths)
    stored = dict(IdempotencyKey.objects.values_list("key", "job_id"))
    if stored != {str(number): job for number, job in observed.accepted.items()}:
        yield "the responses to submissions and the stored jobs differ"
    planned, accepted = observed.plan.jobs, len(observed.accepted)
    if not planned == accepted == Job.objects.count():
        yield f"{planned} submissions, {accepted} accepted, {Job.objects.count()} jobs"
    for job in Job.objects.exclude(status__in=TERMINAL):
        yield f"job {job.pk} is lost: it is {job.status} at attempt {job.attempt}"


def history_violations(histories: dict[int, History]) -> Iterator[str]:
    """Yield the histories with a forbidden transition, or a terminal status that is not the last."""
    for job in Job.objects.all():
        history = histories.get(job.pk, [])
        if sum(event.to_status in TERMINAL for event in history) != int(job.is_terminal):
            yield f"job {job.pk} has {[event.to_status for event in history]}"
        if not history or (history[-1].to_status, history[-1].attempt) != (job.status, job.attempt):
            yield f"job {job.pk} does not match its last event"
        for event, following in pairwise(history):
            claim = following.to_status == Status.STARTING and following.from_status != Status.STARTING
            if (
                following.from_status != event.to_status
                or (event.to_status, following.to_status) not in JobMove.pairs()
                or following.attempt != event.attempt + claim
            ):
                yield f"job {job.pk} went from {event} ({event.attempt}) to {following} ({following.attempt})"


def billing_violations() -> Iterator[str]:
    """Yield the jobs not settled and counted exactly once, and inconsistencies of the ledger."""
    yield from map(str, ledger.verify())
    yield from hold_audit.discrepancies()
    ended_jobs = Job.objects.filter(status__in=TERMINAL)
    if Hold.objects.exclude(resolved_at=None).count() != ended_jobs.count():
        yield "the numbers of settlements and ended jobs differ"
    paid = Counter(dict(spent_by_job()))
    for job in ended_jobs:
        if paid[job.pk] != job.credits_consumed:
            yield f"job {job.pk} cost {job.credits_consumed} and {paid[job.pk]} were spent on it"
    used = DailyUsage.objects.aggregate(jobs=Sum("jobs"), credits=Sum("credits"), sim_ms=Sum("sim_ms"))
    real = ended_jobs.aggregate(credits=Sum("credits_consumed"), sim_ms=Sum("sim_duration_ms"))
    if used != {"jobs": ended_jobs.count(), "credits": real["credits"], "sim_ms": real["sim_ms"]}:
        yield f"usage is {used}, but {ended_jobs.count()} jobs used {real}"


def spent_by_job() -> Iterator[tuple[int, int]]:
    spent = Entry.objects.filter(target=Pocket.SPENT).values("job_id").annotate(total=Sum("credits"))
    yield from spent.values_list("job_id", "total")  # type: ignore[misc]


def fencing_violations(histories: dict[int, History]) -> Iterator[str]:
    """Yield writes of attempts that had lost their job, and results of other attempts than the last."""
    sharded = shard_audit.sharded_attempts()
    for job in Job.objects.prefetch_related("artifacts", "runs"):
        history = histories.get(job.pk, [])
        over = {e.attempt: e.at for e in history if e.from_status in CLAIMED and e.to_status not in CLAIMED}
        claimed = {e.attempt: e.at for e in history if e.from_status in WAITING and e.to_status == Status.STARTING}
        yield from (
            f"job {job.pk} ended at attempt {job.attempt} and has a file of attempt {artifact.attempt}"
            for artifact in job.artifacts.all()
            if artifact.attempt != job.attempt or not (ran(job) or job.error_code == "internal")
        )
        for run in job.runs.all():
            # Helpers finish their shards for the next attempt.
            if run.ended_at is None or late(run, job.completed_at if run.seat else over.get(run.attempt)):
                yield f"run {run} of job {job.pk} was written after attempt {run.attempt} was over"
        yield from hold_violations(job, claimed, over)
        # Shards are billed by their tries (`shard_violations.bill_violations`).
        if ran(job) and (job.pk, job.attempt) not in sharded and counted_ms(job) != job.sim_duration_ms:
            yield f"job {job.pk} ran {job.sim_duration_ms} ms, its runs of attempt {job.attempt} did not"


def counted_ms(job: Job) -> int:
    """Return the milliseconds that the processes of a job's last attempt ran."""
    return sum(run.wall_ms or 0 for run in job.runs.all() if run.attempt == job.attempt)


def ran(job: Job) -> bool:
    """Return whether the job's last attempt ran to its end."""
    return job.sim_duration_ms is not None


def late(run: Run, over_at: datetime | None) -> bool:
    """Return whether the end of a run was recorded after its attempt was over."""
    return run.wall_ms is not None and over_at is not None and (run.ended_at is None or run.ended_at > over_at)


def hold_violations(job: Job, claimed: dict[int, datetime], over: dict[int, datetime]) -> Iterator[str]:
    """Yield credits held neither at submission nor by a running attempt."""
    hold_times = Entry.objects.filter(job_id=job.pk, target=Pocket.HELD).order_by("id").values_list("at", flat=True)
    first = hold_times[0] if hold_times else None
    for at in hold_times:
        if at != first and not any(since <= at <= over.get(attempt, at) for attempt, since in claimed.items()):
            yield f"credits were held for job {job.pk} at {at}, when no attempt was running"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a job, with the numbers of transactions.

    `rank` is the job's place in the queue, `waited` the last transaction that left the job waiting and `number` the
    claim's own. Transactions below `saw` had ended when the claim looked for the best job.
    """

    job: int
    rank: tuple[int, int]
    at: float
    number: int
    saw: int
    waited: int

    def was_waiting_at(self, other: "Claim") -> bool:
        """Return whether this job was waiting when the other claim was made."""
        return self.waited < other.saw and other.number < self.saw


def claims() -> list[Claim]:
    """Return all claims in order, except those of jobs with a short queue deadline."""
    with connection.cursor() as cursor:
        cursor.execute(CLAIMS, [SNAPSHOT_MARK, list(WAITING), SHORT_QUEUE_SECONDS])
        rows = cursor.fetchall()
    return [
        Claim(job=job, rank=(priority, job), at=at, number=number, saw=int(saw), waited=waited)
        for job, priority, at, number, saw, waited in rows
    ]


def checked_pairs() -> int:
    """Return the number of pairs of claims whose order can be checked."""
    all_claims = claims()
    return sum(other.was_waiting_at(claim) for claim in all_claims for other in all_claims)


def order_violations(observed: Observations) -> Iterator[str]:
    """Yield claims that skipped a better waiting job.

    Compares transaction numbers instead of clocks. Claims skip locked rows, so each process that was paused within
    a transaction at that time excuses one skipped job.
    """
    all_claims = claims()
    for claim in all_claims:
        skipped = [other.job for other in all_claims if other.rank < claim.rank and other.was_waiting_at(claim)]
        locked = sum(start - SLACK_SECONDS < claim.at < end + SLACK_SECONDS for start, end in observed.locked)
        if len(skipped) > locked:
            yield (
                f"job {claim.job} was claimed before {skipped}; {locked} rows may have been locked; "
                f"{faults_before(observed, claim.at)}"
            )


def faults_before(observed: Observations, at: float) -> list[str]:
    """Return the faults of the last seconds before a time, with their distance to it."""
    near = [(at - then, *rest) for then, *rest in observed.faults if -1 < at - then < 8]
    return [f"{before:.2f} s earlier, {fault} of {process}: {point}" for before, process, point, fault in near]


def file_violations() -> Iterator[str]:
    """Yield artifacts without a file, and files without an artifact except those of lost attempts."""
    for artifact in Artifact.objects.all():
        if not default_storage.exists(artifact.storage_name):
            yield f"the file of {artifact} is missing"
    counting = set(Job.objects.exclude(sim_duration_ms=None).values_list("id", "attempt"))
    for name in orphans():
        job, attempt, _ = name.rpartition("/")[2].split("-", 2)
        # Files of shards are checked by `shard_violations.leftover_violations`.
        if ".shard." not in name and (int(job), int(attempt.partition(".")[0])) in counting:
            yield f"no artifact names {name}, a file of the attempt that counts"


def orphans() -> list[str]:
    """Return the stored files of these jobs that no artifact names; killed workers leave them."""
    named = set(Artifact.objects.values_list("storage_name", flat=True))
    jobs = {str(job) for job in Job.objects.values_list("id", flat=True)}
    folders = {f"{job[:5]}/{job[5:8]}" for job in jobs}
    stored = [
        f"{folder}/{name}"
        for folder in folders
        if default_storage.exists(folder)
        for name in default_storage.listdir(folder)[1]
        if name.partition("-")[0] in jobs
    ]
    return [name for name in stored if name not in named]


def simulators_left(executable: Path) -> list[psutil.Process]:
    """Return the simulators still running; wait first for those whose worker was just killed."""
    deadline = time.monotonic() + EXIT_SECONDS
    while (processes := running(executable)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return processes
