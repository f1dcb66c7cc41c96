"""The delivery worker: takes due events, makes the requests in threads of its own, writes down what came of them.

Only the thread that runs the pump talks to the database, so that a process needs one connection however many
requests it has in flight. What waits for a receiver is a thread and nothing else: no row is locked and no
transaction open.

There are two lanes with slots of their own. Endpoints whose last attempt succeeded, or that are new, have the
steady one; those whose last attempt failed have the other, with one request at a time. So receivers that hang,
however many they are, hold up each other and nobody else: one that begins to hang takes at most `per_client` of the
steady slots, for the ten seconds that a request can last.
"""

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from django.conf import settings

from webhooks import delivery, http_client, signing
from webhooks.delivery import Attempt, Lane
from webhooks.http_client import Answer

logger = logging.getLogger(__name__)

STEADY_SLOTS, FAILING_SLOTS = 48, 16
# Of the steady slots, what one account can fill with any number of clients.
ACCOUNT_SLOTS = STEADY_SLOTS // 4
POLL_SECONDS = 0.05
# Once a request has ended, others soon will: what is written down together costs the database less.
GATHER_SECONDS = 0.02
# How long the pump looks on after the last event: what a throughput limit held back is due again by then.
LINGER_SECONDS = 1.5


def lanes() -> tuple[Lane, Lane]:
    """Return the two lanes."""
    in_flight = settings.WEBHOOK_IN_FLIGHT
    return (
        Lane(slots=STEADY_SLOTS, per_client=in_flight, per_account=max(ACCOUNT_SLOTS, in_flight), failing=False),
        Lane(slots=FAILING_SLOTS, per_client=1, per_account=FAILING_SLOTS // 2, failing=True),
    )


class Dispatcher:
    """Works off what is due, until nothing is or it is asked to stop."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop
        self.lanes = lanes()
        # Each request in flight, with the lane whose slot it has.
        self.running: dict[Future[Answer], tuple[Attempt, Lane]] = {}

    def run(self) -> None:
        """Deliver until nothing has been due for a moment. Raises the database's errors, which leases make good."""
        idle_since = time.monotonic()
        with ThreadPoolExecutor(sum(lane.slots for lane in self.lanes), "webhook") as threads:
            while not self.stop.is_set():
                if self.fill(threads):
                    idle_since = time.monotonic()
                if self.running:
                    self.collect()
                elif time.monotonic() - idle_since > LINGER_SECONDS:
                    return
                else:
                    self.stop.wait(POLL_SECONDS)
            while self.running:
                self.collect()

    def fill(self, threads: ThreadPoolExecutor) -> int:
        """Start what is due as far as there are free slots; return how many requests that were."""
        started = 0
        for lane in self.lanes:
            used = sum(own is lane for _, own in self.running.values())
            attempts = delivery.claim(lane, room=lane.slots - used) if used < lane.slots else []
            for attempt in attempts:
                self.running[threads.submit(deliver, attempt)] = (attempt, lane)
            started += len(attempts)
        return started

    def collect(self) -> None:
        """Wait a moment for requests to end, and write down what came of those that did."""
        if wait(self.running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED).done:
            time.sleep(GATHER_SECONDS)
        ended = [future for future in self.running if future.done()]
        if ended:
            delivery.record([(self.running[future][0], future.result()) for future in ended])
        for future in ended:
            del self.running[future]


OURS = Answer(problem=http_client.Problem.INTERNAL, detail="The request could not be made: an error of ours.")


def deliver(attempt: Attempt) -> Answer:
    """Make the request of an attempt. Raises nothing: what goes wrong with one event must not stop the others."""
    if attempt.secrets is None:
        return OURS
    try:
        return request(attempt, attempt.secrets)
    except Exception:
        logger.exception("delivery %s failed", attempt.delivery)
        return OURS


def request(attempt: Attempt, secrets: Sequence[str]) -> Answer:
    """Sign and send."""
    headers = signing.headers(
        secrets,
        attempt.body,
        at=int(time.time()),
        event=attempt.event,
        delivery=attempt.delivery,
    )
    return http_client.send(attempt.url, headers, attempt.body)
