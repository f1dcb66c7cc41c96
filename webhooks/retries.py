"""What an answer means for an event, and when it is tried again (specification, Delivery outcomes; design, 6)."""

import random
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from webhooks.http_client import Answer
from webhooks.models import Delivery

Outcome = Delivery.Outcome

# What lies between an attempt and the next one: the first attempt is made at once, then up to ten more.
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
# A number of seconds that is longer than any wait need not be read to its end.
MOST_DIGITS = 9


class Verdict(NamedTuple):
    """How an attempt ended, and how long to wait when it is to be made again."""

    outcome: Outcome
    wait: timedelta | None = None


def judge(answer: Answer, *, failures: int, now: datetime) -> Verdict:
    """Return what an answer means for an event of which so many attempts failed before.

    A failed attempt without a wait was the last one.
    """
    outcome = outcome_of(answer)
    if outcome != Outcome.FAILED or failures >= len(WAITS):
        return Verdict(outcome)
    return Verdict(outcome, wait(failures, retry_after=retry_after(answer, now=now)))


def outcome_of(answer: Answer) -> Outcome:
    """Return how an attempt ended. Without a complete answer it failed, whatever its status was going to be."""
    if answer.problem or answer.status is None:
        return Outcome.FAILED
    if 200 <= answer.status < 300:
        return Outcome.DELIVERED
    is_passing = answer.status in (REQUEST_TIMEOUT, TOO_MANY_REQUESTS) or answer.status >= 500
    return Outcome.FAILED if is_passing else Outcome.REJECTED


def wait(failures: int, *, retry_after: timedelta) -> timedelta:
    """Return how long to wait after so many earlier failures and this one.

    A receiver may ask for longer than the schedule has it, up to the length of the schedule's next step.
    """
    step = WAITS[failures]
    longest = WAITS[min(failures + 1, len(WAITS) - 1)]
    spread = step * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, guards nothing
    return max(spread, min(retry_after, longest))


def retry_after(answer: Answer, *, now: datetime) -> timedelta:
    """Return what the answer's Retry-After asks for, in either of its forms; nothing when it makes no sense."""
    text = answer.retry_after.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=int(text[:MOST_DIGITS]))
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return timedelta(0)
    # A date without a zone is meant as UTC.
    return max(moment.replace(tzinfo=moment.tzinfo or UTC) - now, timedelta(0))
