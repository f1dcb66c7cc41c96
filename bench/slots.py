"""The time until two jobs start on two workers with eight slots in total, six of them busy."""

import random
import time

from django.conf import settings
from redis import Redis

from bench.accounts import open_keys
from bench.callers import PROFILE, Caller
from bench.figures import Value, Values, percentile
from bench.lab import FAILED, SLOTS, LocalStack, column, number, second_worker

TRIES, QUICK_TRIES = 20, 5
BUSY = 2 * SLOTS - 2
# 1.5 s
LONG = PROFILE.replace("iterations=1", "iterations=15000")
RUNNING = "SELECT count(*) FROM jobs_job WHERE status = 'running'"
STARTED = "SELECT extract(epoch FROM started_at - created_at) FROM jobs_job WHERE id = ANY(%s)"
CLAIMED = """
    SELECT extract(epoch FROM at - created_at) FROM jobs_job
    JOIN jobs_jobevent AS event ON event.job_id = jobs_job.id AND to_status = 'starting'
    WHERE jobs_job.id = ANY(%s)
"""


def measure(stack: LocalStack, *, quick: bool) -> Values:
    """Return the longest delays until a job was claimed, and until its simulator started."""
    caller = Caller(stack.url, open_keys(1)[0])
    with second_worker(slots=SLOTS):
        _wait_for_both_workers()
        # The first jobs load code and open connections.
        _submit_two(stack, caller)
        jobs = [job for _ in range(QUICK_TRIES if quick else TRIES) for job in _submit_two(stack, caller)]
    assert not number(FAILED), "some jobs failed"
    return {"slots.claimed": _slowest(column(CLAIMED, jobs)), "slots.started": _slowest(column(STARTED, jobs))}


def _slowest(delays: list[float]) -> Value:
    return Value(max(delays) * 1000, f"{len(delays)} jobs, median {percentile(delays, 50) * 1000:.0f} ms")


def _wait_for_both_workers() -> None:
    """Wait until both workers have sent a heartbeat."""
    with Redis.from_url(settings.REDIS_URL) as client:
        while client.zcard("workers") < 2:
            time.sleep(0.1)


def _submit_two(stack: LocalStack, caller: Caller) -> list[int]:
    """Occupy all slots but two, submit two short jobs, and wait for all ends; return the ids of the two."""
    for _ in range(BUSY):
        caller.submit(LONG)
    while number(RUNNING) < BUSY:
        time.sleep(0.01)
    time.sleep(random.uniform(0.1, 0.4))  # noqa: S311 - not secret
    submitted = [caller.submit(), caller.submit()]
    stack.drain()
    return submitted
