"""Invariants of a fault run. Each function yields the violations that it finds."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from django.core.files.storage import default_storage
from django.db import connection
from django.db.models import QuerySet, Sum

from billing import ledger
from jobs.enums import CLAIMED, TERMINAL, WAITING, ReturnCause
from jobs.history.replay import Replay, current_terms
from jobs.models import Artifact, DailyUsage, IdempotencyKey, Job, JobEvent
from jobs.operations import hold_audit
from jobs.queue.claims import FIRST_IDS_SECONDS
from tests.faults.fault_run import Observations
from tests.faults.fault_workers import LEASE_SECONDS, MIN_ALLOWANCE_MS, SNAPSHOT_MARK
from tests.faults.processes import running
from tests.faults.requests import SHORT_QUEUE_SECONDS

# Between the fault that pauses a process and the release of its locks.
SLACK_SECONDS = 1.0
EXIT_SECONDS = 10.0

# For each claim the last event before it that left the job waiting, and the last one that resumed it. `xmin`
# is the number of the (sub)transaction that wrote a row.
CLAIMS = """
    SELECT claim.job_id, job.priority, extract(epoch FROM claim.at)::float, claim.xmin::text::bigint,
        split_part(claim.reason, %s, 2), wait.number, coalesce(wait.resumed_at, 0)
    FROM jobs_jobevent AS claim JOIN jobs_job AS job ON job.id = claim.job_id
    CROSS JOIN LATERAL (
        SELECT max(xmin::text::bigint) AS number,
            extract(epoch FROM max(at) FILTER (WHERE cause = %s AND attempt = 0))::float AS resumed_at
        FROM jobs_jobevent
        WHERE job_id = claim.job_id AND id < claim.id AND to_status = ANY(%s)
            AND attempt = claim.attempt - 1
    ) AS wait
    WHERE claim.to_status = 'starting' AND claim.from_status <> 'starting' AND job.ceiling_queue_seconds <> %s
        AND wait.number IS NOT NULL
    ORDER BY claim.id
"""


def violations(observed: Observations) -> list[str]:
    """Return all violations of a run."""
    return [
        *submission_violations(observed),
        *replayed(),
        *billing_violations(),
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


def replayed() -> Iterator[str]:
    """Yield the rows that could not have happened, by the rules of the history."""
    # Those of the fault workers
    terms = replace(current_terms(), lease_seconds=LEASE_SECONDS, shortest_allowance_ms=MIN_ALLOWANCE_MS)
    yield from map(str, Replay(terms=terms).deviations())


def billing_violations() -> Iterator[str]:
    """Yield inconsistencies of the ledger, of the holds and of the counted usage."""
    yield from map(str, ledger.verify())
    yield from hold_audit.discrepancies()
    ended_jobs = Job.objects.filter(status__in=TERMINAL)
    used = DailyUsage.objects.aggregate(jobs=Sum("jobs"), credits=Sum("credits"), sim_ms=Sum("sim_ms"))
    real = ended_jobs.aggregate(credits=Sum("credits_consumed"), sim_ms=Sum("sim_duration_ms"))
    if used != {"jobs": ended_jobs.count(), "credits": real["credits"], "sim_ms": real["sim_ms"]}:
        yield f"usage is {used}, but {ended_jobs.count()} jobs used {real}"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a job, with the numbers of transactions.

    `rank` is the job's place in the queue, `waited` the last transaction that left the job waiting and `number` the
    claim's own. Transactions below `saw` had ended when the claim looked for the best job. `resumed_at` is 0 unless
    the job was paused before its first attempt.
    """

    job: int
    rank: tuple[int, int]
    at: float
    number: int
    saw: int
    waited: int
    resumed_at: float = 0.0

    def was_waiting_at(self, other: "Claim") -> bool:
        """Return whether this job was waiting when the other claim was made, which had to find it."""
        was_waiting = self.waited < other.saw and other.number < self.saw
        # Claims find a resumed job after at most this time.
        return was_waiting and other.at > self.resumed_at + FIRST_IDS_SECONDS + SLACK_SECONDS


def claims() -> list[Claim]:
    """Return all claims in order, except those of jobs with a short queue deadline."""
    with connection.cursor() as cursor:
        cursor.execute(CLAIMS, [SNAPSHOT_MARK, ReturnCause.RESUMED, list(WAITING), SHORT_QUEUE_SECONDS])
        rows = cursor.fetchall()
    return [
        Claim(
            job=job,
            rank=(priority, job),
            at=at,
            number=number,
            saw=int(saw),
            waited=waited,
            resumed_at=resumed_at,
        )
        for job, priority, at, number, saw, waited, resumed_at in rows
    ]


def checked_pairs() -> int:
    """Return the number of pairs of claims whose order can be checked."""
    all_claims = claims()
    return sum(other.was_waiting_at(claim) for claim in all_claims for other in all_claims)


def order_violations(observed: Observations) -> Iterator[str]:
    """Yield claims that skipped a better waiting job.

    Compares transaction numbers instead of clocks. Claims skip locked rows, so each process that was paused within
    a transaction at that time, or woke up, excuses one skipped job.
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
    counting = set(counting_ends().values_list("job_id", "attempt"))
    for name in orphans():
        job, attempt, _ = name.rpartition("/")[2].split("-", 2)
        # Files of shards are checked by `shard_violations.leftover_violations`.
        if ".shard." not in name and (int(job), int(attempt.partition(".")[0])) in counting:
            yield f"no artifact names {name}, a file of the attempt that counts"


def counting_ends() -> QuerySet[JobEvent]:
    """Return the ends of attempts whose simulator time counts.

    A job that ends while it waits leaves the files of its attempts to the retention.
    """
    ends = JobEvent.objects.filter(from_status__in=CLAIMED, to_status__in=TERMINAL)
    return ends.exclude(job__sim_duration_ms=None)


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
