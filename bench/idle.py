"""The cost of a stack without jobs, and the memory of its processes."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench import processes
from bench.figures import Value, Values
from bench.local import LocalStack

SETTLE_SECONDS = 5
STATEMENT = re.compile(rb"LOG:  (statement|execute)")


def measure(stack: LocalStack, *, seconds: float) -> Values:
    """Return CPU time, statements and processes without jobs. Statements are logged only while they are counted."""
    time.sleep(SETTLE_SECONDS)
    before = processes.cpu_seconds(stack.supervisor)
    time.sleep(seconds)
    spent = processes.spent(before, processes.cpu_seconds(stack.supervisor))
    shares = {name: cpu / seconds * 100 for name, cpu in spent.items()}
    parts = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    return {
        "idle.cpu": Value(sum(shares.values()), parts),
        "idle.statements": Value(_statements(stack, seconds)),
    }


def _statements(stack: LocalStack, seconds: float) -> float:
    """Return the statements per second that the stack sends, counted in PostgreSQL's log."""
    log = stack.folder / "logs" / "postgres.log"
    with _logged_statements(stack):
        start = log.stat().st_size
        time.sleep(seconds)
        written = log.read_bytes()[start:]
    return len(STATEMENT.findall(written)) / seconds


@contextmanager
def _logged_statements(stack: LocalStack) -> Iterator[None]:
    """Log all statements during the block."""
    stack.database.execute("ALTER SYSTEM SET log_statement = 'all'")
    stack.database.execute("SELECT pg_reload_conf()")
    time.sleep(0.5)
    try:
        yield
    finally:
        stack.database.execute("ALTER SYSTEM RESET log_statement")
        stack.database.execute("SELECT pg_reload_conf()")


def memory(
    idle: Mapping[str, float], warm: Mapping[str, float], after: Mapping[str, float], *, jobs: int
) -> Values:
    """Return the memory of the largest process, and the largest growth from the first jobs to the last one."""
    growth = {name: (after[name] / warm[name] - 1) * 100 for name in warm.keys() & after.keys()}
    return {
        "memory.idle": Value(max(idle.values()), listed(idle)),
        "memory.growth": Value(max(growth.values()), f"after {jobs:,} jobs: {listed(after)}"),
    }


def listed(megabytes: Mapping[str, float]) -> str:
    """Return the memory of each process as a text."""
    return ", ".join(f"{name} {size:.0f}" for name, size in megabytes.items())
