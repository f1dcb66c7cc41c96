"""The load of an idle stack, and leaks of threads and descriptors by jobs."""

import re
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.stack import Stack, below

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(240)]

SECONDS = 12
STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]*): ")
QUEUES = ("sim", "webhooks", "control")
KINDS = ("gunicorn", "--queues sim", "--queues webhooks", "--queues control")


def test_an_idle_stack_needs_few_statements(stack: Stack) -> None:
    """At most 5 statements and 12 Redis commands a second, of all processes together. Measured: 2 and 7."""
    wait_until_idle(stack)
    log = stack.data / "logs" / "postgres.log"
    with psycopg.connect(stack.ready["databaseUrl"], autocommit=True) as connection:
        log_statements(connection, "all")
        already, commands = count_statements(log), redis_commands(stack)
        time.sleep(SECONDS)
        statements, commands = count_statements(log) - already, redis_commands(stack) - commands
        log_statements(connection, "none")
    # The log must contain at least the sweeps.
    assert SECONDS / 2 < statements <= 5 * SECONDS
    assert commands <= 12 * SECONDS


def wait_until_idle(stack: Stack) -> None:
    """Wait until workers have taken the hints of earlier tests, and a while longer."""
    with stack.redis() as client:
        while any(client.llen(queue) for queue in QUEUES):
            time.sleep(0.5)
    time.sleep(5)


def log_statements(connection: "psycopg.Connection", which: str) -> None:
    connection.execute(f"ALTER SYSTEM SET log_statement = '{which}'".encode())
    connection.execute("SELECT pg_reload_conf()")


def count_statements(log: Path) -> int:
    return len(STATEMENT.findall(log.read_text(errors="replace")))


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
