"""The time from a submission to the start of its simulator: on idle slots, and right after a burst."""

import random
import time

from bench.callers import Caller, submit_many
from bench.figures import Value, Values
from bench.local import LocalStack
from bench.percentiles import milliseconds, percentile
from bench.sizes import Size

BURST = 200
# The stub simulator names its actor with the Unix time of its start.
DELAYS = """
    SELECT (summary->'mainActor'->>'name')::float8 - extract(epoch FROM created_at) FROM jobs_job
    WHERE status = 'completed' AND created_at > to_timestamp(%s)
"""


def measure(stack: LocalStack, size: Size) -> Values:
    """Return the percentiles of the delays on idle slots and after a burst."""
    idle = _single_jobs(stack, size.single_jobs)
    after_bursts = []
    for _ in range(size.bursts):
        submit_many(stack.url, stack.keys, count=BURST)
        stack.drain()
        after_bursts += _single_jobs(stack, size.jobs_after_burst)
    return _values("idle", idle) | _values("burst", after_bursts)


def _values(name: str, seconds: list[float]) -> Values:
    delays, note = milliseconds(seconds), f"{len(seconds)} jobs"
    return {
        f"start.{name}_p50": Value(percentile(delays, 50), note),
        f"start.{name}_p99": Value(percentile(delays, 99), note),
    }


def _single_jobs(stack: LocalStack, count: int) -> list[float]:
    """Submit jobs one at a time; return the seconds from each submission to its simulator's start."""
    since, caller = time.time(), Caller(stack.url, stack.keys[0])
    for _ in range(count):
        caller.submit()
        # Longer than a job, and random, so that submissions do not coincide with periodic tasks.
        time.sleep(random.uniform(0.25, 0.4))  # noqa: S311 - not secret
    stack.drain()
    return stack.column(DELAYS, since)
