"""Claims, starts and ends of jobs without a simulator, compared with no-op tasks of other task queues."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import cycle, islice
from typing import TYPE_CHECKING

import psutil

from bench import holds, peers, processes
from bench.figures import Value, Values
from bench.percentiles import percentile
from bench.stores import django_on_stores

if TYPE_CHECKING:
    from billing.models import Account
    from clients.models import Client
    from jobs.lifecycle.job_moves import Outcome
    from jobs.models import Build, Job

THREADS = 4
WARM_UP = 10 * THREADS
ACCOUNTS = 50
JOBS, QUICK_JOBS = 4_000, 500
HELD_CREDITS = 3_200
SUMMARY = {"metric": "dps", "mainActor": {"name": "Ada", "mean": 1234.5}}


def measure(*, quick: bool) -> Values:
    """Return rates and costs of our moves, and the rates of the peers."""
    jobs = QUICK_JOBS if quick else JOBS
    with django_on_stores() as stores:
        values = _moves(jobs)
        rates = peers.rates(stores, jobs=jobs)
    ours, theirs = values["moves.rate"].value, rates["peers.procrastinate"].value
    ratio = ours / theirs if ours and theirs else None
    return values | rates | {"moves.ratio": Value(ratio, rates["peers.procrastinate"].note if not ratio else "")}


def _moves(jobs: int) -> Values:
    """Move jobs in threads; return the rate, the CPU time of each job, and the slowest claims."""
    build = make_build()
    # The first jobs open connections and fill caches.
    make_jobs(open_accounts(ACCOUNTS), count=jobs + WARM_UP)
    move_all(build, count=WARM_UP)
    cpu, own, started = processes.cpu_seconds(psutil.Process()), time.process_time(), time.perf_counter()
    durations = move_all(build, count=jobs)
    elapsed, own = time.perf_counter() - started, time.process_time() - own
    spent = processes.spent(cpu, processes.cpu_seconds(psutil.Process()))
    _require_clean_books(jobs + WARM_UP)
    return {
        "moves.rate": Value(jobs / elapsed, f"{jobs:,} jobs, {THREADS} threads, {ACCOUNTS} accounts"),
        "moves.cpu": Value(own / jobs * 1000),
        "moves.postgres_cpu": Value(spent["postgres"] / jobs * 1000),
        "moves.claim_p99": Value(percentile(durations, 99) * 1000),
    }


def make_build() -> "Build":
    """Store a build, whose executable is never run."""
    from django.utils import timezone

    from jobs.models import Build

    return Build.objects.create(
        executable="/bin/false", git_branch="midnight", commit="0" * 40, simc_version="1", created_at=timezone.now()
    )


def open_accounts(count: int) -> "list[Account]":
    """Open accounts with credits."""
    from billing import ledger
    from billing.models import Plan
    from clients.accounts import open_account

    plan, _ = Plan.objects.get_or_create(name="bench")
    accounts = [open_account(f"moves-{number}", plan=plan) for number in range(count)]
    for account in accounts:
        ledger.correct(account, 10**11, reason="bench")
    return accounts


def make_jobs(accounts: "list[Account]", *, count: int) -> None:
    """Store waiting jobs with their holds, for the accounts in turn."""
    from clients.accounts import default_client
    from jobs.models import Job

    owners = [(account, default_client(account)) for account in accounts]
    # Like real ids, these ids begin with the time in milliseconds.
    first_id = int(time.time() * 1000) * 100_000
    jobs = [new_job(first_id + number, *owner) for number, owner in enumerate(islice(cycle(owners), count))]
    Job.objects.bulk_create(jobs)

    def hold(start: int) -> None:
        for job in jobs[start::THREADS]:
            holds.hold(job.account, HELD_CREDITS, job_id=job.pk)

    in_threads(hold)


def new_job(job_id: int, account: "Account", client: "Client") -> "Job":
    """Return a waiting job, not stored yet."""
    from django.utils import timezone

    from jobs.enums import Channel, Priority, Status
    from jobs.models import Job

    now = timezone.now()
    return Job(
        id=job_id,
        account=account,
        client=client,
        priority=Priority.STANDARD,
        channel=Channel.LATEST,
        git_branch="midnight",
        ceiling_credits=HELD_CREDITS,
        ceiling_runtime_seconds=100,
        ceiling_queue_seconds=86_400,
        credits_per_second=32,
        vcpus=2,
        status=Status.QUEUED,
        created_at=now,
        updated_at=now,
        queue_deadline_at=now + timedelta(days=1),
        share_token=f"{job_id:022}",
    )


def move_all(build: "Build", *, count: int) -> list[float]:
    """Claim, start and end `count` jobs in threads; return the seconds of each claim."""
    turns, durations = iter(range(count)), list[float]()

    def work(number: int) -> None:
        # `next` on a shared iterator is atomic, so all threads together make `count` moves.
        for _ in turns:
            durations.append(_move_one(build, worker=f"bench:{number}"))

    in_threads(work)
    return durations


def _move_one(build: "Build", *, worker: str) -> float:
    """Claim the best job, record one simulator process, and end the job; return the seconds of the claim."""
    from jobs.execution import attempt
    from jobs.lifecycle import job_moves

    started = time.perf_counter()
    job = job_moves.claim_job(worker)
    seconds = time.perf_counter() - started
    assert job is not None, "no job waits"
    assert job_moves.start_run(job, build=build) is not None
    attempt.conclude(job, outcome(), [])
    return seconds


def outcome() -> "Outcome":
    """Return the end of a completed job."""
    from jobs.enums import Status
    from jobs.lifecycle.job_moves import Outcome

    return Outcome(
        status=Status.COMPLETED,
        exit_code="0",
        sim_duration_ms=900,
        credits_consumed=32,
        summary=SUMMARY,
        percent=100.0,
    )


def in_threads(work: Callable[[int], None]) -> None:
    """Call `work` with the number of each thread, and close the threads' database connections afterwards."""
    from django.db import connection

    def run(number: int) -> None:
        try:
            work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))


def _require_clean_books(jobs: int) -> None:
    """Assert that all jobs have ended and that the ledger matches them."""
    from billing import ledger
    from jobs.enums import Status
    from jobs.models import Job
    from jobs.operations import hold_audit

    assert Job.objects.filter(status=Status.COMPLETED).count() == jobs
    assert [*ledger.verify(), *hold_audit.discrepancies()] == []
