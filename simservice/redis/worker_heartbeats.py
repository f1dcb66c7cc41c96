"""Which workers are alive: a hint in Redis, refreshed with every Celery heartbeat."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from simservice.redis.client import ask, redis

KEY = "workers"
SIMULATION = "sim@"
"""How the names of simulation workers begin (Procfile)."""
ALIVE_SECONDS = 10


class Worker(NamedTuple):
    """A live worker, how many tasks it does at a time, and the layers of the sandbox that hold its simulators."""

    name: str
    slots: int
    layers: frozenset[str] = frozenset()


def report(worker: str, *, slots: int = 1, layers: Iterable[str] = ()) -> None:
    """Record that `worker` is alive now. Redis being away is not the worker's problem."""
    member = " ".join([worker, str(slots), *sorted(layers)])
    ask(lambda: record(member), otherwise=None)


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
    name, slots, *layers = member.split(" ")
    return Worker(name, int(slots), frozenset(layers))


def slots_of(workers: list[Worker]) -> int:
    """Return how many simulations the workers run at the same time."""
    return sum(worker.slots for worker in workers)


def common_layers(workers: list[Worker]) -> list[str]:
    """Return the sandbox layers that are active on every worker, by name."""
    return sorted(frozenset.intersection(*(worker.layers for worker in workers))) if workers else []
