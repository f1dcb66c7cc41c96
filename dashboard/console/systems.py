"""State of the other workers, PostgreSQL, Redis and the disk of this machine."""

import shutil
import time
from typing import NamedTuple

from django.conf import settings
from django.db import connection

from simservice import worker_heartbeats
from simservice.redis.client import best_effort, redis
from simservice.worker_heartbeats import ALIVE_SECONDS, SERVICE_QUEUES


class System(NamedTuple):
    """A part that the service depends on: its state in words, and whether that needs attention."""

    name: str
    state: str
    is_bad: bool = False


def state() -> dict[str, list[System]]:
    """Return the other workers and the systems. One query and three requests to Redis."""
    return {"systems": [*_workers(), _database(), _redis(), _disk()]}


def _workers() -> list[System]:
    """Return how many workers of each other queue are live."""
    found = best_effort(worker_heartbeats.service_workers, default=None)
    if found is None:
        return [
            System(f"{queue} workers", "Unknown, because Redis does not respond", is_bad=True)
            for queue in SERVICE_QUEUES
        ]
    live = [worker.name for worker, age in found.items() if age <= ALIVE_SECONDS]
    counts = {queue: sum(name.startswith(f"{queue}@") for name in live) for queue in SERVICE_QUEUES}
    return [
        System(f"{queue} workers", f"{count} live" if count else "None running", not count)
        for queue, count in counts.items()
    ]


def _database() -> System:
    """Return how fast PostgreSQL responds, and how many of its connections are used."""
    started = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(numbackends), current_setting('max_connections')::int FROM pg_stat_database",
        )
        used, most = cursor.fetchone()
    text = f"Responds in {_ms(started)}, {used} of {most} connections used"
    return System("PostgreSQL", text, used >= 0.9 * most)


def _redis() -> System:
    """Return how fast Redis responds, and its memory."""
    started = time.perf_counter()
    memory = best_effort(lambda: redis().info("memory"), default=None)
    if memory is None:
        return System("Redis", "Does not respond", is_bad=True)
    used, most = int(memory["used_memory"]), int(memory.get("maxmemory", 0))
    limit = f" of {most >> 20:,} MiB" if most else ""
    return System(
        "Redis", f"Responds in {_ms(started)}, {used >> 20:,} MiB{limit} used", bool(most) and used > 0.9 * most
    )


def _disk() -> System:
    """Return the free space of this machine's data directory. Workers report a full disk themselves."""
    try:
        # The directory is created by the first process that writes to it.
        folder = next(each for each in (settings.DATA_DIR, *settings.DATA_DIR.parents) if each.exists())
        usage = shutil.disk_usage(folder)
    except OSError as error:
        return System("Disk of this machine", f"Unknown: {error.strerror}", is_bad=True)
    text = f"{usage.free / 2**30:,.1f} GiB of {usage.total / 2**30:,.1f} GiB free"
    return System("Disk of this machine", text, usage.free < settings.SIM_DISK_BYTES)


def _ms(started: float) -> str:
    return f"{(time.perf_counter() - started) * 1000:.1f} ms"
