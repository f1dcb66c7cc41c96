"""Which workers are alive: a hint in Redis, refreshed with every Celery heartbeat."""

import time
from typing import NamedTuple

from simservice.hints import ask, redis

KEY = "workers"
SIMULATION = "sim@"
"""How the names of simulation workers begin (Procfile)."""
ALIVE_SECONDS = 10


class Worker(NamedTuple):
    """A live worker, and how many tasks it does at a time."""

    name: str
    slots: int


def report(worker: str, *, slots: int = 1) -> None:
    """Record that `worker` is alive now. Redis being away is not the worker's problem."""
    ask(lambda: record(f"{worker} {slots}"), otherwise=None)


def record(member: str) -> None:
    """Store a sign of life, and forget the dead. Raises RedisError."""
    now = time.time()
    with redis().pipeline() as pipe:
        pipe.zadd(KEY, {member: now})
        pipe.zremrangebyscore(KEY, 0, now - 60)
        pipe.execute()


def simulation_workers() -> list[Worker]:
    """Return the simulation workers that were heard of in the last ten seconds.

    Raises RedisError when Redis does not answer.
    """
    members = (str(member) for member in redis().zrangebyscore(KEY, time.time() - ALIVE_SECONDS, "+inf"))
    return [as_worker(member) for member in members if member.startswith(SIMULATION)]


def as_worker(member: str) -> Worker:
    """Return the worker that a stored sign of life is of."""
    name, _, slots = member.rpartition(" ")
    return Worker(name, int(slots))


def slots_of(workers: list[Worker]) -> int:
    """Return how many simulations the workers run at the same time."""
    return sum(worker.slots for worker in workers)
