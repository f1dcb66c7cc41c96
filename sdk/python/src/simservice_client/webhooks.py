"""Verification of webhook requests."""

import hashlib
import hmac
import json
import time
from collections.abc import Mapping

from simservice_client._answers import MALFORMED
from simservice_client.errors import InvalidSignature, NotConfigured, UnknownEvent
from simservice_client.models import CreditsLowEvent, TerminalEvent

TOLERANCE_SECONDS = 300
EVENTS: dict[tuple[str, str], type[TerminalEvent] | type[CreditsLowEvent]] = {
    ("job.terminal", "v1"): TerminalEvent,
    ("account.credits_low", "v1"): CreditsLowEvent,
}
UNKNOWN = "The request is from the service, but this version of the library does not know its event."


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str],
    *,
    secret: str,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> TerminalEvent:
    """Return the event of a job's end from a webhook request.

    Pass the raw body, before anything parses it. Raises InvalidSignature if the request is not from the service or
    was signed more than `tolerance_seconds` ago (`now` is a Unix time, by default the present), UnknownEvent for an
    event of another kind (`verify_event`) or of a later version, and NotConfigured for an empty secret, with which
    anyone can sign. An event can arrive more than once: `event_id_of(headers)` stays the same.

        event = verify_webhook(await request.body(), request.headers, secret=os.environ["WEBHOOK_SECRET"])
        if event.payload.status == "completed":
            print(client.jobs.results(event.payload.id).mean)
    """
    event = verify_event(body, headers, secret=secret, tolerance_seconds=tolerance_seconds, now=now)
    if not isinstance(event, TerminalEvent):
        raise UnknownEvent("The event is not about a job. Use verify_event for events of all kinds.")
    return event


def verify_event(
    body: bytes,
    headers: Mapping[str, str],
    *,
    secret: str,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> TerminalEvent | CreditsLowEvent:
    """Return the event of a webhook request, whatever its kind. Otherwise like `verify_webhook`.

    event = verify_event(await request.body(), request.headers, secret=os.environ["WEBHOOK_SECRET"])
    if isinstance(event, CreditsLowEvent):
        print(f"Only {event.payload.available} credits are left")
    """
    if not secret:
        raise NotConfigured("The webhook's secret is empty.")
    _verify(body, _header(headers, "signature"), secret, tolerance_seconds, time.time() if now is None else now)
    try:
        content = json.loads(body)
        return EVENTS[content["kind"], content["version"]].from_json(content)
    except MALFORMED:
        raise UnknownEvent(UNKNOWN) from None


def _verify(body: bytes, signature: str, secret: str, tolerance_seconds: float, now: float) -> None:
    """Raise InvalidSignature unless the service signed a body within the tolerance."""
    parts = [part.strip().partition("=") for part in signature.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    digests = [value for name, _, value in parts if name == "v1"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdigit()) or not digests:
        raise InvalidSignature("The signature header is malformed.")
    expected = hmac.new(secret.encode(), times[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    # During the overlap of a rotation there is a digest for each secret.
    if not any(hmac.compare_digest(digest.encode(), expected.encode()) for digest in digests):
        raise InvalidSignature("The signature does not match: the secret is another one, or the body was changed.")
    age = now - int(times[0])
    if abs(age) > tolerance_seconds:
        raise InvalidSignature(f"The request was signed {age:.0f} s ago. Check the clock of this machine.")


def event_id_of(headers: Mapping[str, str]) -> str:
    """Return the id of a webhook's event, the same for each delivery. Raises InvalidSignature if it is missing."""
    return _header(headers, "event-id")


def _header(headers: Mapping[str, str], suffix: str) -> str:
    """Return a header whose name contains the service's brand: `X-<brand>-Signature`, also in the form of WSGI."""
    for name, value in headers.items():
        plain = name.lower().replace("_", "-").removeprefix("http-")
        if plain.startswith("x-") and plain.endswith(f"-{suffix}"):
            return value
    raise InvalidSignature(f"The request has no header X-…-{suffix.title()}.")
