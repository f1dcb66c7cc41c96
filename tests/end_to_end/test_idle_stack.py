"""The load of an idle stack, and leaks of threads and descriptors by jobs."""

import re
import time
from collections import Counter
from pathlib import Path

import psutil
import psycopg
import pytest

from simservice import celery
from tests.stack import Stack, below

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(240)]

SECONDS, MEASUREMENTS = 12, 4
STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]*): ")
LOGGED = re.compile(STATEMENT.pattern + r"\s*(.{,100})")
KINDS = ("gunicorn", "--queues sim.high", "--queues webhooks", "--queues control", "simservice beat")


def test_an_idle_stack_needs_few_statements(stack: Stack) -> None:
    """At most 5 statements and 15 Redis commands a second, of all processes together. Measured: 2 and 12."""
    wait_until_idle(stack)
    # Earlier tests' webhooks may be due for another attempt within a measurement.
    measured = [measure_load(stack)]
    while not is_small(*measured[-1]) and len(measured) < MEASUREMENTS:
        measured.append(measure_load(stack))
    assert is_small(*measured[-1]), (measured, busiest_statements(stack))


def measure_load(stack: Stack) -> tuple[int, int]:
    """Return how many statements and Redis commands the stack sends in 12 seconds."""
    log = stack.data / "logs" / "postgres.log"
    with psycopg.connect(stack.ready["databaseUrl"], autocommit=True) as connection:
        log_statements(connection, "all")
        statements, commands = count_statements(log), redis_commands(stack)
        time.sleep(SECONDS)
        statements, commands = count_statements(log) - statements, redis_commands(stack) - commands
        log_statements(connection, "none")
    # The log must contain at least the sweeps.
    assert statements > SECONDS / 2
    return statements, commands


def is_small(statements: int, commands: int) -> bool:
    return statements <= 5 * SECONDS and commands <= 15 * SECONDS


def wait_until_idle(stack: Stack) -> None:
    """Wait until earlier tests' jobs have ended and workers have received all messages, and a while longer.

    The sharded stage of a job whose worker was killed is kept for a minute, and the sweep looks at it.
    """
    stack.wait_for_all_ends()
    kept = "SELECT exists(SELECT FROM jobs_shardedstage)"
    with psycopg.connect(stack.ready["databaseUrl"], autocommit=True) as connection, stack.redis() as client:
        while client.exists(*celery.QUEUES) or connection.execute(kept).fetchone() == (True,):
            time.sleep(0.5)
    time.sleep(5)


def log_statements(connection: "psycopg.Connection", which: str) -> None:
    connection.execute(f"ALTER SYSTEM SET log_statement = '{which}'".encode())
    connection.execute("SELECT pg_reload_conf()")


def count_statements(log: Path) -> int:
    return len(STATEMENT.findall(log.read_text(errors="replace")))


def busiest_statements(stack: Stack) -> list[tuple[str, int]]:
    """Return the beginnings of the most frequent statements of the measurements."""
    log = stack.data / "logs" / "postgres.log"
    return Counter(LOGGED.findall(log.read_text(errors="replace"))).most_common(10)


def redis_commands(stack: Stack) -> int:
    with stack.redis() as client:
        return sum(each["calls"] for each in client.info("commandstats").values())


def test_jobs_leave_no_threads_and_descriptors_behind(stack: Stack) -> None:
    run_jobs(stack, 6)
    before = resources(stack)
    run_jobs(stack, 24)
    after = resources(stack)
    assert set(after) == set(KINDS)
    # Pools may still grow by a thread or a connection, but not with each job.
    assert all(after[kind] <= before[kind] + 8 for kind in KINDS), (before, after)


def run_jobs(stack: Stack, count: int) -> None:
    for job_id in [stack.submit() for _ in range(count)]:
        stack.wait_for_end(job_id)


def resources(stack: Stack) -> dict[str, int]:
    """Return the number of threads and descriptors together of each kind of process."""
    main = psutil.Process(stack.process.pid)
    return {kind: max(each.num_threads() + each.num_fds() for each in below(main, kind)) for kind in KINDS}
