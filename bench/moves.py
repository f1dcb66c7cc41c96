"""Claims, starts and ends of jobs without a simulator."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.db import connection
from django.utils import timezone

from bench import processes
from bench.accounts import open_accounts
from bench.figures import Value, Values, percentile
from bench.lab import LocalStack, manage
from clients.accounts import default_client
from clients.models import Client
from jobs.enums import Channel, Priority, Status
from jobs.execution import attempt
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Build, Job
from jobs.submission.store import store
from simservice.ids import new_token, next_id

THREADS = 4
ACCOUNTS = 50
WARM_UP = 10 * THREADS
JOBS, QUICK_JOBS = 4_000, 500
HELD_CREDITS = 3_200
SUMMARY = {"metric": "dps", "mainActor": {"name": "Ada", "mean": 1234.5}}
OUTCOME = Outcome(status=Status.COMPLETED, exit_code="0", sim_duration_ms=900, credits_consumed=32, summary=SUMMARY)


def measure(stack: LocalStack, *, quick: bool) -> Values:
    """Move jobs in threads; return the rate, the CPU time of each job, and the slowest claims."""
    with processes.suspended(stack.supervisor):
        return _moves(stack, jobs=QUICK_JOBS if quick else JOBS)


def _moves(stack: LocalStack, *, jobs: int) -> Values:
    build = Build.objects.create(
        executable="/bin/false", git_branch="midnight", commit="0" * 40, simc_version="1", created_at=timezone.now()
    )
    store_jobs(jobs + WARM_UP)
    # The first jobs open connections and fill caches.
    move_jobs(build, count=WARM_UP)
    before, own, started = processes.cpu_seconds(stack.supervisor), time.process_time(), time.perf_counter()
    claims = move_jobs(build, count=jobs)
    elapsed, own = time.perf_counter() - started, time.process_time() - own
    spent = processes.spent(before, processes.cpu_seconds(stack.supervisor))
    assert Job.objects.filter(status=Status.COMPLETED).count() == jobs + WARM_UP
    manage("verifyledger")
    return {
        "moves.rate": Value(jobs / elapsed, f"{jobs:,} jobs, {THREADS} threads, {ACCOUNTS} accounts"),
        "moves.cpu": Value(own / jobs * 1000),
        "moves.postgres_cpu": Value(spent["postgres"] / jobs * 1000),
        "moves.claim_p99": Value(percentile(claims, 99) * 1000),
    }


def store_jobs(count: int) -> None:
    """Store waiting jobs, as submissions do, for the accounts in turn."""
    clients = [default_client(account) for account in open_accounts(ACCOUNTS)]

    def work(number: int) -> None:
        for each in range(number, count, THREADS):
            job, wanted = new_job(clients[each % ACCOUNTS]), HELD_CREDITS
            plan = job.account.plan
            result = store(job, profile_text="a", wanted=wanted, required=wanted, plan=plan, record=None)
            assert result.broken_rule is None

    in_threads(work, threads=THREADS)


def new_job(client: Client) -> Job:
    """Return a waiting job, not stored yet."""
    return Job(
        id=next_id(),
        account=client.account,
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
        share_token=new_token(),
    )


def move_jobs(build: Build, *, count: int) -> list[float]:
    """Claim, start and end `count` jobs in threads; return the seconds of each claim."""
    claims = list[float]()

    def work(number: int) -> None:
        for _ in range(number, count, THREADS):
            started = time.perf_counter()
            job = job_moves.claim_job(f"bench:{number}")
            claims.append(time.perf_counter() - started)
            assert job is not None, "no job waits"
            assert job_moves.start_run(job, build=build) is not None
            attempt.conclude(job, OUTCOME, [])

    in_threads(work, threads=THREADS)
    return claims


def in_threads(work: Callable[[int], None], *, threads: int) -> None:
    """Call `work` with the number of each thread, and close the threads' database connections afterwards."""

    def run(number: int) -> None:
        try:
            work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(threads)))
