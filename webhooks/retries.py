"""Outcomes of attempts: what a response means, when a failed attempt is retried, and how both are recorded.

The rules: `docs/reference/webhooks.md#respond`. An outcome is recorded only while the attempt's row says
that it is in progress, so a worker that was declared lost changes nothing. If no outcome is recorded before the
lease expires, the request is made again under the same event id.
"""

import logging
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models.functions import Now

from clients.audit import SYSTEM
from simservice.clocks import database_time
from simservice.postgresql.statements import load
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

SQL = load(__file__)


class Decision(NamedTuple):
    """The outcome of an attempt, and the wait before its retry; None if it is not retried."""

    outcome: Outcome
    wait: timedelta | None = None


class _Ended(NamedTuple):
    """An attempt with its response and what follows from it."""

    attempt: Attempt
    response: Response
    decision: Decision


@transaction.atomic
def record_responses(responses: Iterable[tuple[Attempt, Response]]) -> None:
    """Record the outcomes of attempts, schedule retries, and update the health of the endpoints.

    A batch takes four statements, and one more for each endpoint whose health changes.
    """
    ordered = sorted(responses, key=lambda pair: (pair[0].client_id, pair[0].event_id))
    if not ordered:
        return
    locked, now = _lock([attempt for attempt, _ in ordered])
    ended = end_attempts(
        [
            _Ended(attempt, response, decide(response, failures=attempt.failures, now=now))
            for attempt, response in ordered
        ]
    )
    if ended:
        columns = zip(*(_event_change(attempt, decision) for attempt, _, decision in ended), strict=True)
        with connection.cursor() as cursor:
            cursor.execute(SQL["move_events"], [list(column) for column in columns])
    for attempt, _, decision in ended:
        # A missing key is not the receiver's fault, and disabling the endpoint would delete its secret.
        if attempt.secrets is not None:
            update_health(locked[attempt.client_id], succeeded=decision.outcome == Outcome.DELIVERED, now=now)


def _lock(attempts: Sequence[Attempt]) -> tuple[dict[int, Endpoint], datetime]:
    """Lock the endpoints and events of attempts, in the order of `claims`.

    Return the endpoints by client, and the database's time.
    """
    clients = {attempt.client_id for attempt in attempts}
    rows = Endpoint.objects.filter(pk__in=clients).order_by("pk").select_for_update(no_key=True)
    locked = {endpoint.pk: endpoint for endpoint in rows}
    events = Event.objects.filter(pk__in=[attempt.event_id for attempt in attempts]).order_by("pk")
    rows_of_events = events.select_for_update(no_key=True).annotate(read_at=Now()).values_list("read_at", flat=True)
    return locked, max(rows_of_events, default=None) or database_time()


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


def end_attempts(ended: Sequence[_Ended]) -> list[_Ended]:
    """Write the outcomes of attempts to the delivery log; return those that were still in progress."""
    columns = zip(*(_log_entry(*one) for one in ended), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(SQL["end_attempts"], [list(column) for column in columns])
        recorded = {delivery_id for (delivery_id,) in cursor.fetchall()}
    _warn_of_dropped([attempt for attempt, _, _ in ended if attempt.delivery_id not in recorded])
    return [one for one in ended if one.attempt.delivery_id in recorded]


def _log_entry(attempt: Attempt, response: Response, decision: Decision) -> tuple[object, ...]:
    return (
        attempt.delivery_id,
        decision.outcome.value,
        response.duration_ms,
        response.address,
        response.status,
        str(response.problem),
        response.detail[:MAX_DETAIL],
        _excerpt_of(response.body),
        response.signature,
    )


def _warn_of_dropped(attempts: Sequence[Attempt]) -> None:
    """Log the attempts whose outcome was not recorded, because they were declared lost or deleted before."""
    if not attempts:
        return
    known = set(Delivery.objects.filter(pk__in=[one.delivery_id for one in attempts]).values_list("pk", flat=True))
    for attempt in attempts:
        fate = "lost" if attempt.delivery_id in known else "gone"
        logger.warning("outcome of delivery %s dropped: %s", attempt.delivery, fate, extra=attempt.log_ids)


def _excerpt_of(body: bytes) -> str:
    """Return the first 2 KiB of a response body as text that PostgreSQL can store."""
    text = body[:MAX_EXCERPT_BYTES].decode("utf-8", "replace").replace("\0", "\ufffd")
    return text.encode()[:MAX_EXCERPT_BYTES].decode("utf-8", "ignore")


def _event_change(attempt: Attempt, decision: Decision) -> tuple[object, ...]:
    if decision.outcome == Outcome.DELIVERED:
        return attempt.event_id, State.DELIVERED.value, "", attempt.failures, None
    failures = attempt.failures + 1
    if decision.wait is not None:
        return attempt.event_id, State.WAITING.value, "", failures, decision.wait
    failure = Failure.REJECTED if decision.outcome == Outcome.REJECTED else Failure.EXHAUSTED
    return attempt.event_id, State.FAILED.value, failure.value, failures, None


def update_health(endpoint: Endpoint, *, succeeded: bool, now: datetime) -> None:
    """Record since when a locked endpoint has been failing, and disable it after `DISABLED_AFTER`."""
    if succeeded:
        changed, endpoint.failing_since = endpoint.failing_since is not None, None
    else:
        changed, endpoint.failing_since = endpoint.failing_since is None, endpoint.failing_since or now
    if changed:
        endpoints.save(endpoint, failing_since=endpoint.failing_since)
    if endpoint.failing_since and now - endpoint.failing_since >= DISABLED_AFTER:
        endpoints.switch_off(endpoint, because=Endpoint.Disabled.FAILING, by=SYSTEM)


def is_sweep_needed() -> bool:
    """Return whether an event is due or its worker is lost."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["is_sweep_needed"])
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
