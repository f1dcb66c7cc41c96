"""The whole path: HTTP submissions, workers, the sandbox and the simulator, on a local stack."""

import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from django.db import connection

from bench import processes
from bench.accounts import open_keys
from bench.callers import Caller, submit_many
from bench.figures import Value, Values, percentile
from bench.lab import ACTIVE, FAILED, SLOTS, STARTED, LocalStack, column, number

CALLERS = 4
# Callers pause while this many jobs are unfinished, which is enough to keep every slot busy.
BACKLOG = 10 * SLOTS
RAMP_SECONDS = 2.0
SETTLE_SECONDS = 5.0
BURST = 200
STATEMENT = re.compile(rb"LOG:  (statement|execute)")
ENDED = "SELECT count(*) FROM jobs_job WHERE completed_at > to_timestamp(%s) AND completed_at <= to_timestamp(%s)"
DELAYS = f"""
    SELECT {STARTED} - extract(epoch FROM created_at) FROM jobs_job
    WHERE status = 'completed' AND created_at > to_timestamp(%s)
"""  # noqa: S608 - constants


class Size(NamedTuple):
    """Counts and seconds of one run. The sustained load ends when `jobs` or `seconds` is reached."""

    idle_seconds: float
    warm_up: int
    jobs: int
    seconds: float
    single_jobs: int
    bursts: int
    submissions: int


FULL = Size(20, 200, 10_000, 340, 100, 4, 2_000)
QUICK = Size(6, 40, 1_000, 10, 20, 1, 300)


def measure(stack: LocalStack, *, quick: bool) -> Values:
    """Return the figures of an idle stack, of a sustained load, of single jobs, and of submissions alone."""
    size, keys = QUICK if quick else FULL, open_keys(CALLERS)
    values, idle = _idle(stack, seconds=size.idle_seconds), processes.megabytes(stack.supervisor)
    submit_many(stack.url, keys, count=size.warm_up)
    stack.drain()
    warm = processes.megabytes(stack.supervisor)
    values |= _sustained(stack, keys, size)
    after = processes.megabytes(stack.supervisor)
    growth = {name: (after[name] / warm[name] - 1) * 100 for name in warm.keys() & after.keys()}
    values["memory.idle"] = Value(max(idle.values()), processes.listed(idle))
    values["memory.growth"] = Value(max(growth.values()), processes.listed(after))
    values |= _start_delays(stack, keys, size)
    assert not number(FAILED), "some jobs failed"
    return values | _submissions_alone(stack, keys, size)


def _idle(stack: LocalStack, *, seconds: float) -> Values:
    """Measure a stack without jobs. Statements are logged only while they are counted."""
    time.sleep(SETTLE_SECONDS)
    before = processes.cpu_seconds(stack.supervisor)
    time.sleep(seconds)
    spent = processes.spent(before, processes.cpu_seconds(stack.supervisor))
    shares = {name: cpu / seconds * 100 for name, cpu in spent.items()}
    log = stack.folder / "logs" / "postgres.log"
    with connection.cursor() as cursor:
        cursor.execute("ALTER SYSTEM SET log_statement = 'all'")
        cursor.execute("SELECT pg_reload_conf()")
        time.sleep(0.5)
        start = log.stat().st_size
        time.sleep(seconds)
        statements = len(STATEMENT.findall(log.read_bytes()[start:]))
        cursor.execute("ALTER SYSTEM RESET log_statement")
        cursor.execute("SELECT pg_reload_conf()")
    return {
        "idle.cpu": Value(sum(shares.values()), processes.listed(shares, digits=2)),
        "idle.statements": Value(statements / seconds),
    }


def _sustained(stack: LocalStack, keys: list[str], size: Size) -> Values:
    """Keep a bounded backlog; return the rate at which jobs ended, and what each cost."""
    stop, may_go = threading.Event(), threading.Event()

    def submit(key: str) -> None:
        caller = Caller(stack.url, key)
        while not stop.is_set():
            if may_go.wait(0.1):
                caller.submit()

    with ThreadPoolExecutor(CALLERS) as pool:
        callers = [pool.submit(submit, key) for key in keys]
        try:
            _keep_backlog(may_go, seconds=RAMP_SECONDS, jobs=size.jobs)
            before, started = processes.cpu_seconds(stack.supervisor), time.time()
            _keep_backlog(may_go, seconds=size.seconds, jobs=size.jobs)
            spent, ended = processes.spent(before, processes.cpu_seconds(stack.supervisor)), time.time()
        finally:
            stop.set()
        for caller in callers:
            caller.result()
    jobs = number(ENDED, started, ended)
    stack.drain()
    costs = {name: seconds / jobs * 1000 for name, seconds in spent.items()}
    values = {f"path.{name}_cpu": Value(costs.pop(name)) for name in ("sim", "web", "postgres")}
    return values | {
        "path.rate": Value(jobs / (ended - started), f"{jobs:,.0f} jobs in {ended - started:.0f} s"),
        "path.other_cpu": Value(sum(costs.values()), processes.listed(costs, digits=1)),
    }


def _keep_backlog(may_go: threading.Event, *, seconds: float, jobs: int) -> None:
    """Let the callers submit while fewer than BACKLOG jobs are active, until enough jobs ended or time is over."""
    started, end, next_count = time.time(), time.monotonic() + seconds, 0.0
    while (now := time.monotonic()) < end:
        if number(ACTIVE) < BACKLOG:
            may_go.set()
        else:
            may_go.clear()
        time.sleep(0.03)
        if now > next_count:
            next_count = now + 2
            if number(ENDED, started, time.time()) >= jobs:
                return


def _start_delays(stack: LocalStack, keys: list[str], size: Size) -> Values:
    """Return the time from a submission to the start of its simulator: on idle slots, and right after a burst."""
    delays = {"idle": _delays(stack, keys[0], count=size.single_jobs), "burst": list[float]()}
    for _ in range(size.bursts):
        submit_many(stack.url, keys, count=BURST)
        stack.drain()
        delays["burst"] += _delays(stack, keys[0], count=25)
    return {
        f"start.{name}_p{percent}": Value(percentile(seconds, percent) * 1000, f"{len(seconds)} jobs")
        for name, seconds in delays.items()
        for percent in (50, 99)
    }


def _delays(stack: LocalStack, key: str, *, count: int) -> list[float]:
    """Submit jobs one at a time; return the seconds from each submission to its simulator's start."""
    since, caller = time.time(), Caller(stack.url, key)
    for _ in range(count):
        caller.submit()
        # Longer than a job, and random, so that submissions do not coincide with periodic tasks.
        time.sleep(random.uniform(0.25, 0.4))  # noqa: S311 - not secret
    stack.drain()
    return column(DELAYS, since)


def _submissions_alone(stack: LocalStack, keys: list[str], size: Size) -> Values:
    """Measure `POST jobs` while all other programs are suspended."""
    with processes.suspended(stack.supervisor, but=processes.WEB_AND_SERVERS):
        submit_many(stack.url, keys, count=len(keys) * 10)
        before, started = processes.cpu_seconds(stack.supervisor), time.perf_counter()
        durations = submit_many(stack.url, keys, count=size.submissions)
        rate = len(durations) / (time.perf_counter() - started)
        spent = processes.spent(before, processes.cpu_seconds(stack.supervisor))
    return {
        "post.rate": Value(rate, f"{len(durations):,} submissions, {CALLERS} callers"),
        "post.p50": Value(percentile(durations, 50) * 1000),
        "post.p99": Value(percentile(durations, 99) * 1000),
        "post.web_cpu": Value(spent["web"] / len(durations) * 1000),
        "post.postgres_cpu": Value(spent["postgres"] / len(durations) * 1000),
    }
