"""Which workers are alive: a hint in Redis, refreshed with every Celery heartbeat."""

import logging
import time

from redis.exceptions import RedisError

from simservice.hints import redis

logger = logging.getLogger(__name__)

KEY = "workers"
SIMULATION = "sim@"
"""How the names of simulation workers begin (Procfile)."""
ALIVE_SECONDS = 10


def report(worker: str) -> None:
    """Record that `worker` is alive now. Redis being away is not the worker's problem."""
    now = time.time()
    try:
        with redis().pipeline() as pipe:
            pipe.zadd(KEY, {worker: now})
            pipe.zremrangebyscore(KEY, 0, now - 60)
            pipe.execute()
    except RedisError:
        logger.warning("presence of %s not recorded: Redis does not answer", worker)


def simulation_workers() -> list[str]:
    """Return the names of the simulation workers that were heard of in the last ten seconds.

    Raises RedisError when Redis does not answer.
    """
    names = (str(name) for name in redis().zrangebyscore(KEY, time.time() - ALIVE_SECONDS, "+inf"))
    return [name for name in names if name.startswith(SIMULATION)]
