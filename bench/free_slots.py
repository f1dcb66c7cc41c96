"""The time until two jobs start on two workers with eight slots in total, six of them busy."""

import json
import random
import time

from redis import Redis

from bench import stub
from bench.callers import PROFILE, Caller
from bench.figures import Value, Values
from bench.local import SLOTS, LocalStack, local_stack, second_worker
from bench.percentiles import milliseconds, percentile

TRIES, QUICK_TRIES = 20, 5
WORKERS = 2
BUSY = WORKERS * SLOTS - 2
# The stand-in sleeps for 0.1 ms in each fight.
LONG, SHORT = 15_000, 10
RUNNING = "SELECT count(*) FROM jobs_job WHERE status = 'running'"
# From a submission to the claim, and to the simulator's start
DELAYS = """
    SELECT extract(epoch FROM at - created_at), extract(epoch FROM started_at - created_at)
    FROM jobs_job JOIN jobs_jobevent AS event ON event.job_id = jobs_job.id AND to_status = 'starting'
    WHERE jobs_job.id = ANY(%s) AND status = 'completed'
"""


def measure(*, quick: bool) -> Values:
    """Return the longest delays until a job was claimed, and until its simulator started."""
    tries, delays = QUICK_TRIES if quick else TRIES, list[tuple[float, float]]()
    with (
        local_stack(accounts=1, simulator=stub.build_sleeper, SIM_SLOTS=str(SLOTS)) as stack,
        second_worker(stack, slots=SLOTS),
    ):
        _wait_for_both(stack)
        _start_two(stack)
        for _ in range(tries):
            delays += _start_two(stack)
    assert len(delays) == 2 * tries, "some jobs failed"
    claimed, started = (milliseconds(moments) for moments in zip(*delays, strict=True))
    return {"slots.claimed": _slowest(claimed), "slots.started": _slowest(started)}


def _slowest(delays: list[float]) -> Value:
    return Value(max(delays), f"{len(delays)} jobs, median {percentile(delays, 50):.0f} ms")


def _caller(stack: LocalStack, iterations: int) -> Caller:
    """Return a caller whose jobs simulate `iterations` fights."""
    text = PROFILE.replace("iterations=100", f"iterations={iterations}")
    body = {"build": {"channel": "latest"}, "profile": {"text": text}}
    return Caller(stack.url, stack.keys[0], body=json.dumps(body).encode())


def _fill(stack: LocalStack, slots: int) -> None:
    """Submit long jobs, and wait until they run."""
    caller = _caller(stack, LONG)
    for _ in range(slots):
        caller.submit()
    while stack.number(RUNNING) < slots:
        time.sleep(0.01)


def _wait_for_both(stack: LocalStack) -> None:
    """Wait until both workers have sent a heartbeat."""
    with Redis.from_url(stack.redis_url) as client:
        while client.zcard("workers") < WORKERS:
            time.sleep(0.1)


def _start_two(stack: LocalStack) -> list[tuple[float, float]]:
    """Occupy all slots but two, and submit two jobs. Return the seconds until each was claimed and started."""
    _fill(stack, BUSY)
    time.sleep(random.uniform(0.1, 0.4))  # noqa: S311 - not secret
    caller = _caller(stack, SHORT)
    submitted = [int(caller.submit()) for _ in range(2)]
    stack.drain()
    return [(float(claim), float(start)) for claim, start in stack.database.execute(DELAYS, [submitted])]
