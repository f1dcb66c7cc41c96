"""Delivery worker: claims due events, makes their requests in threads, and records the outcomes.

Only the dispatcher's own thread uses the database, so a process needs one connection for any number of requests in
flight, and a request that waits for a receiver holds no lock and no transaction.

There are two pools of slots: the steady pool for new endpoints and those whose last attempt succeeded, the failing
pool for those whose last attempt failed, one request at a time each. So receivers that hang delay each other, not
others: each can occupy `per_client` steady slots for the duration of one timeout.
"""

import logging
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing

from django.conf import settings

from simservice.telemetry import tracing
from simservice.telemetry.logs import log_ids
from webhooks import claims, http_client, retries, signing
from webhooks.claims import Attempt, SlotPool
from webhooks.connection_pool import ConnectionPool
from webhooks.http_client import Response

logger = logging.getLogger(__name__)

STEADY_SLOTS, FAILING_SLOTS = 48, 16
# The share of the steady slots that one account can use.
ACCOUNT_SLOTS = STEADY_SLOTS // 4
POLL_SECONDS = 0.05
# Other requests often end soon after one has; recording them together costs the database less.
GATHER_SECONDS = 0.02
# How long to wait for further events. By then, events delayed by a throughput limit are due.
LINGER_SECONDS = 1.5


def pools() -> tuple[SlotPool, SlotPool]:
    """Return the steady and the failing pool."""
    in_flight = settings.WEBHOOK_IN_FLIGHT
    return (
        SlotPool(
            slots=STEADY_SLOTS, per_client=in_flight, per_account=max(ACCOUNT_SLOTS, in_flight), failing=False
        ),
        SlotPool(slots=FAILING_SLOTS, per_client=1, per_account=FAILING_SLOTS // 2, failing=True),
    )


class Dispatcher:
    """Delivers events until none is due or it is stopped."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._pools = pools()
        self._connections = ConnectionPool()
        # The requests in flight, each with the pool that its slot belongs to.
        self._running: dict[Future[Response], tuple[Attempt, SlotPool]] = {}

    def run(self) -> None:
        """Deliver until nothing has been due for `LINGER_SECONDS`.

        Raises database errors; the events in flight are then delivered after their leases expire.
        """
        idle_since = time.monotonic()
        slots = sum(pool.slots for pool in self._pools)
        # Connections are closed after all threads have ended.
        with closing(self._connections), ThreadPoolExecutor(slots, "webhook") as threads:
            while not self._stop.is_set():
                self._connections.close_expired()
                if self._start_requests(threads):
                    idle_since = time.monotonic()
                if self._running:
                    self._record_responses()
                elif time.monotonic() - idle_since > LINGER_SECONDS:
                    return
                else:
                    self._stop.wait(POLL_SECONDS)
            while self._running:
                self._record_responses()

    def _start_requests(self, threads: ThreadPoolExecutor) -> int:
        """Claim due events for the free slots and start their requests; return their number."""
        started = 0
        for pool in self._pools:
            used = sum(own is pool for _, own in self._running.values())
            attempts = claims.claim_deliveries(pool, room=pool.slots - used) if used < pool.slots else []
            for attempt in attempts:
                self._running[threads.submit(make_request, attempt, self._connections)] = (attempt, pool)
            started += len(attempts)
        return started

    def _record_responses(self) -> None:
        """Wait briefly for requests to end, and record the responses of those that did."""
        if wait(self._running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED).done:
            time.sleep(GATHER_SECONDS)
        ended = [future for future in self._running if future.done()]
        if ended:
            retries.record_responses([(self._running[future][0], future.result()) for future in ended])
        for future in ended:
            del self._running[future]


INTERNAL_ERROR = Response(problem=http_client.Problem.INTERNAL, detail="An internal error prevented the request.")


def make_request(attempt: Attempt, connections: ConnectionPool) -> Response:
    """Make the request of an attempt. Raises nothing, so that a bug with one event does not stop the others."""
    if attempt.secrets is None:
        return INTERNAL_ERROR
    ids = {"event": attempt.event, "delivery": attempt.delivery}
    with (
        log_ids(**attempt.log_ids),
        tracing.span("webhook", kind="CLIENT", parent=attempt.trace_parent, **ids),
    ):
        try:
            at = int(attempt.claimed_at.timestamp())
            headers = signing.headers(attempt.secrets, attempt.body, at=at, **ids)
            response = http_client.post(
                attempt.url, headers, attempt.body, client_id=attempt.client_id, connections=connections
            )
            response.signature = headers[signing.signature_header()]
        except Exception:
            logger.exception("delivery %s failed", attempt.delivery)
            return INTERNAL_ERROR
        tracing.note(status=response.status, problem=str(response.problem) or None)
        return response
