"""The history of real jobs: what its rows take, and what a replay costs. No job writes a row for a replay."""

import time

from bench.accounts import open_keys
from bench.callers import submit_many
from bench.figures import Value, Values
from bench.lab import LocalStack, number
from jobs.history.replay import Replay
from jobs.history.specification import RULES

JOBS, QUICK_JOBS = 2_000, 200
CALLERS = 4
# The tables that exist to record what happened. The others would be necessary without a record.
BYTES = "SELECT pg_total_relation_size('jobs_jobevent') + pg_total_relation_size('jobs_run')"


def measure(stack: LocalStack, *, quick: bool) -> Values:
    """Run jobs, then replay them; return the costs of each job. The replay must find nothing."""
    count = QUICK_JOBS if quick else JOBS
    submit_many(stack.url, open_keys(CALLERS), count=count)
    stack.drain()
    replay, started, own = Replay(), time.perf_counter(), time.process_time()
    found = list(replay.deviations())
    elapsed, own = time.perf_counter() - started, time.process_time() - own
    assert not found, found
    note = f"{replay.count.jobs:,} jobs, {replay.count.rows:,} rows, {len(RULES) + 1} rules"
    return {
        "history.replay": Value(elapsed / replay.count.jobs * 1e6, note),
        "history.cpu": Value(own / replay.count.jobs * 1e6, "without PostgreSQL"),
        "history.bytes": Value(number(BYTES) / replay.count.jobs),
    }
