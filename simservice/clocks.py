"""The clocks of PostgreSQL and Redis, and this process's clock compared with them.

Which clock decides what: `docs/explanation/clocks.md`.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

from django.db import connection

from simservice.redis import shared_metrics
from simservice.redis.client import redis
from simservice.redis.shared_metrics import SharedCounter
from simservice.telemetry import known_errors

WRONG_CLOCKS = SharedCounter("wrong_clocks", "Times that a process found its clock to be wrong.", {})


def database_time() -> datetime:
    """Return the current time of PostgreSQL's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone()
    return cast(datetime, now)


def redis_time() -> datetime:
    """Return the current time of Redis's clock. Raises RedisError."""
    seconds, microseconds = redis().time()
    return datetime.fromtimestamp(seconds + microseconds / 1e6, tz=UTC)


def seconds_ahead_of(clock: Callable[[], datetime]) -> float:
    """Return how many seconds this process's clock is ahead of another one, which is read twice."""
    clock()  # connects, which can take seconds after a failover
    before = datetime.now(UTC)
    theirs = clock()
    return ((before - theirs) + (datetime.now(UTC) - theirs)).total_seconds() / 2


def is_right() -> bool:
    """Return whether this process's clock agrees with PostgreSQL's. If not, log and count it.

    A process whose clock is wrong deletes nothing.
    """
    return agrees_with("PostgreSQL", ahead=seconds_ahead_of(database_time))


def agrees_with(other: str, *, ahead: float) -> bool:
    """Return whether this process's clock is close to another one. If not, log and count it."""
    cause = known_errors.wrong_clock(other, ahead=ahead)
    if cause is None:
        return True
    known_errors.report(cause)
    shared_metrics.record(WRONG_CLOCKS.increments())
    return False
