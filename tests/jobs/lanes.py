"""The Celery queues of the lanes in the test's Redis database."""

import json

from jobs.enums import Priority
from jobs.queue.announcements import TASK, queue_of
from simservice.celery import send
from simservice.redis.client import redis


def messages() -> dict[str, int]:
    """Return the number of messages in each lane that is not empty."""
    lengths = {queue_of(lane): int(str(redis().llen(queue_of(lane)))) for lane in Priority}
    return {queue: length for queue, length in lengths.items() if length}


def message(queue: str = "sim.standard") -> str:
    """Return a message to a slot as Celery stores it in Redis, and remove it from its queue."""
    send(TASK, queue=queue)
    stored = str(redis().lpop(queue))
    assert json.loads(stored)["headers"]["task"] == TASK
    return stored
