"""The connection to Redis, for what may be lost: progress, presence, counters."""

import logging
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from django.conf import settings
from redis import Redis
from redis.exceptions import DataError, RedisError

from simservice.metrics import REDIS_FAILURES

logger = logging.getLogger(__name__)

T = TypeVar("T")
TIMEOUT_SECONDS = 2.0
ASKED_AGAIN_AFTER_SECONDS = 1.0


@cache
def redis() -> "Redis":
    """Return the process's client: thread-safe, pooled, with timeouts that keep a request short."""
    return Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
    )


class Outage:
    """Whether Redis answers this process, and when it is asked again if it does not.

    While it does not, one thread at a time asks; the others do without, so that a Redis that hangs costs a
    timeout now and then and not one for each request.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By the monotonic clock; None while Redis answers.
        self._ask_again_at: float | None = None

    def may_ask(self) -> bool:
        """Tell whether to ask now; who is told so during an outage asks for everybody."""
        if self._ask_again_at is None:
            return True
        with self._lock:
            now = time.monotonic()
            if self._ask_again_at is not None and now < self._ask_again_at:
                return False
            self._ask_again_at = now + TIMEOUT_SECONDS + ASKED_AGAIN_AFTER_SECONDS
            return True

    def failed(self, error: Exception) -> None:
        """Note a question without an answer; the first of an outage is logged."""
        REDIS_FAILURES.inc()
        with self._lock:
            begins = self._ask_again_at is None
            self._ask_again_at = time.monotonic() + ASKED_AGAIN_AFTER_SECONDS
        if begins:
            logger.warning("Redis does not answer, so hints and rate limits are left out: %s", error)

    def over(self) -> None:
        """Note an answer; the first after an outage is logged."""
        if self._ask_again_at is None:
            return
        with self._lock:
            ends, self._ask_again_at = self._ask_again_at is not None, None
        if ends:
            logger.warning("Redis answers again")


outage = Outage()


def ask(question: Callable[[], T], *, otherwise: T) -> T:
    """Return Redis's answer, or `otherwise` when Redis does not answer or did not a moment ago.

    Raises whatever is not Redis's fault: a wrong argument too.
    """
    if not outage.may_ask():
        return otherwise
    try:
        answer = question()
    except DataError:
        raise
    except RedisError as error:
        outage.failed(error)
        return otherwise
    outage.over()
    return answer
