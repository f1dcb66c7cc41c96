"""Heartbeats of workers in Redis, refreshed every two seconds, or five by workers that run no simulations."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from simservice import clocks
from simservice.redis.client import best_effort, redis

KEY = "workers"
PROBLEM = "worker:{}:problem"
# The hosts of drained machines, which each sweep publishes
DRAINED = "workers:drained"
HEARTBEAT_SECONDS = 2.0
# Other workers wait for no job, so theirs are less frequent.
SERVICE_SECONDS = 5.0
# The names of simulation workers begin with this.
SIMULATION = "sim@"
# The queues of other workers, whose names begin with the queue
SERVICE_QUEUES = ("control", "webhooks")
ALIVE_SECONDS = 10
FORGOTTEN_SECONDS = 60
# The last heartbeat of each of this process's workers
_members: dict[str, str] = {}


class LiveWorker(NamedTuple):
    """A worker: its name, how many tasks it runs at a time, and its active sandbox layers."""

    name: str
    slots: int
    layers: frozenset[str] = frozenset()

    @property
    def host(self) -> str:
        """Return the name of the worker's machine."""
        return self.name.partition("@")[2].rpartition("-")[0]


def report(worker: str, *, slots: int = 1, layers: Iterable[str] = (), problem: str = "") -> frozenset[str] | None:
    """Record a worker's heartbeat, and why it claims no jobs. Return the drained hosts, None if unknown.

    Nothing is recorded while Redis does not respond.
    """
    member = " ".join([worker, str(slots), *sorted(layers)])
    return best_effort(lambda: _record(member, worker, problem), default=None)


def publish_drained(hosts: Iterable[str]) -> None:
    """Publish the hosts of drained machines for a minute. Does nothing while Redis does not respond."""
    best_effort(lambda: redis().set(DRAINED, " ".join(hosts), ex=FORGOTTEN_SECONDS), default=None)


def _record(member: str, worker: str, problem: str) -> frozenset[str] | None:
    """Store a heartbeat, remove old ones, and return the drained hosts, None if unknown. Raises RedisError.

    Redis's clock decides, so a worker whose own clock is wrong counts as alive and does not remove others.
    """
    before = time.time()
    now = clocks.redis_time().timestamp()
    clocks.agrees_with("Redis", ahead=(before + time.time()) / 2 - now)
    earlier = _members.get(worker, member)
    with redis().pipeline(transaction=False) as pipe:
        pipe.zadd(KEY, {member: now})
        if earlier != member:
            # The number of slots has changed, and a worker counts once.
            pipe.zrem(KEY, earlier)
        pipe.zremrangebyscore(KEY, 0, now - FORGOTTEN_SECONDS)
        if problem:
            pipe.set(PROBLEM.format(worker), problem, ex=FORGOTTEN_SECONDS)
        else:
            pipe.delete(PROBLEM.format(worker))
        pipe.get(DRAINED)
        *_, hosts = pipe.execute()
    _members[worker] = member
    return None if hosts is None else frozenset(str(hosts).split())


def simulation_workers() -> list[LiveWorker]:
    """Return the simulation workers whose last heartbeat is at most ten seconds old.

    Raises RedisError if Redis does not respond.
    """
    return [worker for worker, age in last_seen().items() if age <= ALIVE_SECONDS]


def last_seen() -> dict[LiveWorker, float]:
    """Return the simulation workers of the last minute, live or not, with the seconds since their last heartbeat.

    Raises RedisError if Redis does not respond.
    """
    return {worker: age for worker, age in _all_last_seen().items() if worker.name.startswith(SIMULATION)}


def service_workers() -> dict[LiveWorker, float]:
    """Return the other workers, as `last_seen` does. Raises RedisError if Redis does not respond."""
    return {worker: age for worker, age in _all_last_seen().items() if not worker.name.startswith(SIMULATION)}


def _all_last_seen() -> dict[LiveWorker, float]:
    with redis().pipeline(transaction=False) as pipe:
        pipe.zrange(KEY, 0, -1, withscores=True)
        pipe.time()
        members, (seconds, microseconds) = pipe.execute()
    now = seconds + microseconds / 1e6
    found = {}
    for member, at in members:
        name, slots, *layers = str(member).split(" ")
        if now - at <= FORGOTTEN_SECONDS:
            found[LiveWorker(name, int(slots), frozenset(layers))] = now - at
    return found


def problems_of(workers: Iterable[LiveWorker]) -> dict[str, str]:
    """Return why workers claim no jobs, by name. Workers that claim jobs are left out. Raises RedisError."""
    names = [worker.name for worker in workers]
    found = redis().mget([PROBLEM.format(name) for name in names]) if names else []
    return {name: str(problem) for name, problem in zip(names, found, strict=True) if problem}


def total_slots(workers: list[LiveWorker]) -> int:
    """Return how many simulations the workers can run at the same time."""
    return sum(worker.slots for worker in workers)


def common_layers(workers: list[LiveWorker]) -> list[str]:
    """Return the names of the sandbox layers that are active on every worker, sorted."""
    return sorted(frozenset.intersection(*(worker.layers for worker in workers))) if workers else []
