"""When a request is repeated, and after which time."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime

from simservice_client.errors import ServiceUnreachable, SimserviceError

FIRST_SECONDS, LONGEST_SECONDS = 0.5, 30.0
# A wrong address is more likely than a service that is away.
FIRST_CONTACT_RETRIES = 2


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often a request is repeated after a failure, and for how long the service may ask to wait.

    Without `Retry-After`, the times double from half a second to 30 s, and each is shortened at random by up to a
    half, so that many clients do not return at the same moment. A longer `Retry-After` than `longest_wait` seconds
    ends the attempts. A client that has never connected gives up after two repetitions.
    """

    retries: int
    longest_wait: float

    def delay(self, failures: int, error: SimserviceError, *, is_first_contact: bool) -> float | None:
        """Return the seconds until the next attempt after some failures, or None to give up."""
        retries, after = self.retries, error.retry_after
        if is_first_contact and isinstance(error, ServiceUnreachable) and not error.was_connected:
            retries = min(retries, FIRST_CONTACT_RETRIES)
        if not error.may_pass or failures > retries or (after or 0.0) > self.longest_wait:
            return None
        longest = min(FIRST_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_SECONDS)
        own = longest * random.uniform(0.5, 1)  # noqa: S311 - not secret
        # A service that asks for no wait at all must not be flooded.
        return own if after is None else max(after + random.uniform(0, 0.25), own)  # noqa: S311


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`, None without a valid one.

    A date is compared with the `Date` of the same response, because the clock of this machine may be wrong.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        then, now = (parsedate_to_datetime(value) for value in (text, headers.get("date", "")))
    except (TypeError, ValueError):
        return None
    seconds = (then.replace(tzinfo=timezone.utc) - now.replace(tzinfo=timezone.utc)).total_seconds()
    return max(0.0, seconds)
