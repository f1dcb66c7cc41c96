"""Outcomes of attempts: what a response means, when a failed attempt is retried, and how both are recorded.

The rules: `docs/reference/contract.md#delivery-outcomes`. An outcome is recorded only while the attempt's row says
that it is in progress, so a worker that was declared lost changes nothing. If no outcome is recorded before the
lease expires, the request is made again under the same event id.
"""

import logging
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from clients.audit import SYSTEM
from webhooks import endpoints
from webhooks.claims import Attempt
from webhooks.http_client import Response
from webhooks.models import Delivery, Endpoint, Event

logger = logging.getLogger(__name__)

Outcome = Delivery.Outcome
State, Failure = Event.State, Event.Failure

# The waits between one attempt and the next: after the first attempt, up to ten retries.
WAITS = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=24),
)
JITTER = 0.2
REQUEST_TIMEOUT, TOO_MANY_REQUESTS = 408, 429
# A longer number of seconds exceeds every wait, so the remaining digits do not matter.
MAX_DIGITS = 9
# An endpoint is disabled once every delivery has failed for this long.
DISABLED_AFTER = timedelta(days=5)
MAX_EXCERPT_BYTES = 2048
MAX_DETAIL = 300
BATCH = 500

# Every two seconds on an idle machine, so not built by the ORM, which costs five times as much.
SWEEP_NEEDED = """
    SELECT EXISTS (SELECT FROM webhooks_event WHERE state = 'sending' AND lease_expires_at < statement_timestamp())
        OR EXISTS (SELECT FROM webhooks_event WHERE state = 'waiting' AND next_attempt_at <= statement_timestamp())
"""


class Decision(NamedTuple):
    """The outcome of an attempt, and the wait before its retry; None if it is not retried."""

    outcome: Outcome
    wait: timedelta | None = None


class Recording(Enum):
    """What became of an attempt's outcome."""

    # It was written.
    RECORDED = "recorded"
    # The attempt was declared lost before, and the event is left to another attempt.
    LOST = "lost"
    # The event no longer exists.
    GONE = "gone"


@transaction.atomic
def record_responses(responses: Iterable[tuple[Attempt, Response]]) -> None:
    """Record the outcomes of attempts, schedule retries, and update the health of the endpoints."""
    ordered = sorted(responses, key=lambda pair: (pair[0].client_id, pair[0].event_id))
    locked = _lock([attempt for attempt, _ in ordered])
    delivered = []
    for attempt, response in ordered:
        decision = decide(response, failures=attempt.failures, now=timezone.now())
        recording = end_attempt(attempt, response, decision.outcome)
        if recording is not Recording.RECORDED:
            logger.warning("outcome of delivery %s dropped: %s", attempt.delivery, recording.value)
            continue
        if decision.outcome == Outcome.DELIVERED:
            delivered.append(attempt.event_id)
        else:
            _retry_or_fail(attempt, decision)
        # A missing key is not the receiver's fault, and disabling the endpoint would delete its secret.
        if attempt.secrets is not None:
            update_health(locked[attempt.client_id], succeeded=decision.outcome == Outcome.DELIVERED)
    Event.objects.filter(pk__in=delivered).update(state=State.DELIVERED, lease_expires_at=None, ended_at=Now())


def _lock(attempts: Sequence[Attempt]) -> dict[int, Endpoint]:
    """Lock the endpoints and events of attempts, in the order of `claims`; return the endpoints by client."""
    clients = {attempt.client_id for attempt in attempts}
    rows = Endpoint.objects.filter(pk__in=clients).order_by("pk").select_for_update(no_key=True)
    locked = {endpoint.pk: endpoint for endpoint in rows}
    events = Event.objects.filter(pk__in=[attempt.event_id for attempt in attempts]).order_by("pk")
    list(events.select_for_update(no_key=True).values_list("pk"))
    return locked


def decide(response: Response, *, failures: int, now: datetime) -> Decision:
    """Return the outcome of a response after the given number of earlier failures, and when to retry."""
    outcome = _outcome_of(response)
    if outcome != Outcome.FAILED or failures >= len(WAITS):
        return Decision(outcome)
    return Decision(outcome, _wait(failures, requested=_retry_after(response, now=now)))


def _outcome_of(response: Response) -> Outcome:
    """Return how an attempt ended. An incomplete response is a failure, whatever its status."""
    if response.problem or response.status is None:
        return Outcome.FAILED
    if 200 <= response.status < 300:
        return Outcome.DELIVERED
    is_temporary = response.status in (REQUEST_TIMEOUT, TOO_MANY_REQUESTS) or response.status >= 500
    return Outcome.FAILED if is_temporary else Outcome.REJECTED


def _wait(failures: int, *, requested: timedelta) -> timedelta:
    """Return the wait before the next attempt, after the given number of earlier failures and this one.

    A receiver can request a longer wait, up to the length of the schedule's next step.
    """
    step = WAITS[failures]
    longest = WAITS[min(failures + 1, len(WAITS) - 1)]
    spread = step * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, guards nothing
    return max(spread, min(requested, longest))


def _retry_after(response: Response, *, now: datetime) -> timedelta:
    """Return the wait requested by a Retry-After header, in seconds or as a date; zero if it is invalid."""
    text = response.retry_after.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=int(text[:MAX_DIGITS]))
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return timedelta(0)
    # A date without a zone is UTC.
    return max(moment.replace(tzinfo=moment.tzinfo or UTC) - now, timedelta(0))


def end_attempt(attempt: Attempt, response: Response, outcome: Outcome) -> Recording:
    """Write the outcome of an attempt to the delivery log."""
    row = Delivery.objects.filter(pk=attempt.delivery_id)
    ended = row.filter(outcome=Outcome.SENDING).update(
        outcome=outcome,
        duration_ms=response.duration_ms,
        address=response.address,
        status=response.status,
        problem=response.problem,
        detail=response.detail[:MAX_DETAIL],
        excerpt=_excerpt_of(response.body),
    )
    if ended:
        return Recording.RECORDED
    return Recording.LOST if row.exists() else Recording.GONE


def _excerpt_of(body: bytes) -> str:
    """Return the first 2 KiB of a response body as text that PostgreSQL can store."""
    text = body[:MAX_EXCERPT_BYTES].decode("utf-8", "replace").replace("\0", "\ufffd")
    return text.encode()[:MAX_EXCERPT_BYTES].decode("utf-8", "ignore")


def _retry_or_fail(attempt: Attempt, decision: Decision) -> None:
    """Schedule the next attempt of an event, or mark the event as failed."""
    changes = {"lease_expires_at": None, "failures": attempt.failures + 1}
    event = Event.objects.filter(pk=attempt.event_id)
    if decision.wait is not None:
        event.update(state=State.WAITING, next_attempt_at=Now() + decision.wait, **changes)
        return
    failure = Failure.REJECTED if decision.outcome == Outcome.REJECTED else Failure.EXHAUSTED
    event.update(state=State.FAILED, failure=failure, ended_at=Now(), **changes)


def update_health(endpoint: Endpoint, *, succeeded: bool) -> None:
    """Record since when a locked endpoint has been failing, and disable it after `DISABLED_AFTER`."""
    now = timezone.now()
    if succeeded:
        changed, endpoint.failing_since = endpoint.failing_since is not None, None
    else:
        changed, endpoint.failing_since = endpoint.failing_since is None, endpoint.failing_since or now
    if changed:
        endpoints.save(endpoint, failing_since=endpoint.failing_since)
    if endpoint.failing_since and now - endpoint.failing_since >= DISABLED_AFTER:
        endpoints.switch_off(endpoint, because=Endpoint.Disabled.FAILING, by=SYSTEM)


def is_sweep_needed() -> bool:
    """Return whether an event is due or its worker is lost. One query."""
    with connection.cursor() as cursor:
        cursor.execute(SWEEP_NEEDED)
        (is_needed,) = cursor.fetchone()
    return bool(is_needed)


def recover_lost() -> int:
    """Schedule the events of lost workers for another attempt at once; return their number.

    The loss is our fault, so it does not count as a failure of the receiver.
    """
    with transaction.atomic():
        expired = Event.objects.filter(state=State.SENDING, lease_expires_at__lt=Now())
        events = [event.pk for event in expired.select_for_update(no_key=True, skip_locked=True)[:BATCH]]
        Event.objects.filter(pk__in=events).update(
            state=State.WAITING, lease_expires_at=None, next_attempt_at=Now()
        )
        Delivery.objects.filter(event__in=events, outcome=Outcome.SENDING).update(
            outcome=Outcome.LOST, detail="The worker that made the request was lost."
        )
    return len(events)
