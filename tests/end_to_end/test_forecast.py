"""Estimated start times from real processes."""

import time
from datetime import datetime
from itertools import pairwise

import psycopg
import pytest

from tests.stack import QUICK, Stack

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(240)]

SECONDS = 'mage="Seconds"\nlevel=80\niterations=250000\nmax_time=300\n'
# Twelve seconds of work, more on a busy machine, in equal phases.
MANY_SECONDS = SECONDS + "iterations=60000\n"
MANY_SECONDS += "".join(f"profileset.{number}+=head=,id={number},ilevel=600\n" for number in range(9))


def poll_estimates(stack: Stack, job_id: str) -> list[int]:
    """Poll a waiting job until it starts; return its estimates without repetitions."""
    estimates: list[int] = []
    while queue := stack.call("GET", f"jobs/{job_id}/status")["queue"]:
        seconds = queue["estimatedStartSeconds"]
        if seconds is not None and estimates[-1:] != [seconds]:
            estimates.append(seconds)
        time.sleep(0.2)
    return estimates


def test_the_estimate_falls_while_the_queue_drains(stack: Stack) -> None:
    with psycopg.connect(stack.ready["databaseUrl"]) as database:
        # Jobs of other tests were quicker.
        database.execute("UPDATE jobs_run SET wall_ms = NULL")
    stack.wait_for_end(stack.submit(SECONDS, runtime={"maxCredits": 32 * 2}))
    ids = [stack.submit(SECONDS, runtime={"maxCredits": 32 * 2}) for _ in range(5)]
    estimates = poll_estimates(stack, ids[-1])
    # The first estimates may be from a snapshot without the other jobs.
    estimates = estimates[estimates.index(max(estimates)) :]
    assert len(estimates) >= 3
    # Each finished run shifts the expectation for the others a little.
    falls = [sooner - later for sooner, later in pairwise(estimates)]
    assert sum(fall > 0 for fall in falls) > sum(fall < 0 for fall in falls)
    assert estimates[-1] <= estimates[0] / 2


def seconds_left(stack: Stack, job_id: str) -> float | None:
    """Return how long a running job still takes at its speed so far, None if that is unknown or almost nothing."""
    status = stack.call("GET", f"jobs/{job_id}/status")
    if not status["progress"] or not 10 < status["progress"]["percent"] < 80:
        return None
    elapsed = time.time() - datetime.fromisoformat(status["startedAt"]).timestamp()
    return float(elapsed * (100 / status["progress"]["percent"] - 1))


def estimates_behind(stack: Stack, running: str, waiting: str) -> list[tuple[float, int]]:
    """Poll until a waiting job starts; return each estimate after the seconds that the running one had left."""
    estimates: list[tuple[float, int]] = []
    while queue := stack.call("GET", f"jobs/{waiting}/status")["queue"]:
        left = seconds_left(stack, running)
        if left is not None and queue["estimatedStartSeconds"] is not None:
            estimates.append((left, queue["estimatedStartSeconds"]))
        time.sleep(0.5)
    return estimates


def test_a_long_job_ahead_counts_with_its_remaining_time(stack: Stack) -> None:
    stack.wait_for_end(stack.submit(QUICK))
    with psycopg.connect(stack.ready["databaseUrl"]) as database:
        # By past runs alone, the running job would end at once.
        database.execute("UPDATE jobs_run SET wall_ms = 500 WHERE wall_ms IS NOT NULL")
    running = stack.submit(MANY_SECONDS)
    stack.wait(running, lambda job: job["status"] == "running", seconds=30)
    estimates = estimates_behind(stack, running, stack.submit(QUICK))
    # By past runs alone, each estimate would be a second at most. A busy machine's speed changes all the time.
    assert any(left > 3 and 0.4 < seconds / left < 2.5 for left, seconds in estimates), estimates
