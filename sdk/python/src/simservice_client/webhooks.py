"""Verification of webhook requests."""

import hashlib
import hmac
import json
import time
from collections.abc import Mapping

from simservice_client.errors import InvalidSignature, NotConfigured, SimserviceError
from simservice_client.models import TerminalEvent

TOLERANCE_SECONDS = 300
KIND = "job.terminal"


class UnknownEvent(SimserviceError):
    """A webhook request is from the service, but this version does not know its event. Respond 204 to ignore it."""


def verify_webhook(
    body: bytes, headers: Mapping[str, str], *, secret: str, tolerance_seconds: float = TOLERANCE_SECONDS
) -> TerminalEvent:
    """Return the event of a webhook request.

    Raises InvalidSignature if it is not from the service, or too old, UnknownEvent if this version does not know
    the event, and NotConfigured if the secret is empty, because anyone can sign with that.

    Pass the raw body, before anything parses it. An event can arrive more than once: `event_id_of(headers)` stays
    the same.

        event = verify_webhook(await request.body(), request.headers, secret=os.environ["WEBHOOK_SECRET"])
        if event.payload.status == "completed":
            print(client.jobs.results(event.payload.id).result.summary)
    """
    if not secret:
        raise NotConfigured("The secret of the webhook is empty.")
    _verify_signature(body, _header(headers, "signature"), secret=secret, tolerance_seconds=tolerance_seconds)
    event = json.loads(body)
    if event.get("kind") != KIND:
        raise UnknownEvent(f"The event {event.get('kind')!r} is unknown.")
    return TerminalEvent.from_json(event)


def event_id_of(headers: Mapping[str, str]) -> str:
    """Return the id of a webhook's event, the same for each delivery. Raises InvalidSignature if it is missing."""
    return _header(headers, "event-id")


def _verify_signature(body: bytes, signature: str, *, secret: str, tolerance_seconds: float) -> None:
    """Raise InvalidSignature unless a body was signed with the secret, at most a tolerance ago."""
    parts = [part.strip().partition("=") for part in signature.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    digests = [value for name, _, value in parts if name == "v1"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdigit()) or not digests:
        raise InvalidSignature("The request has no valid signature header.")
    expected = hmac.new(secret.encode(), times[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    # During the overlap of a rotation there is a digest for each secret.
    if not any(hmac.compare_digest(digest.encode(), expected.encode()) for digest in digests):
        raise InvalidSignature("The signature does not match: the secret is another one, or the body was changed.")
    age = time.time() - int(times[0][:12])
    if abs(age) > tolerance_seconds:
        raise InvalidSignature(f"The request was signed {age:.0f} s ago. Check the clock of this machine.")


def _header(headers: Mapping[str, str], suffix: str) -> str:
    """Return a header whose name contains the service's brand: `X-<brand>-Signature`, also in the form of WSGI."""
    for name, value in headers.items():
        plain = name.lower().replace("_", "-").removeprefix("http-")
        if plain.startswith("x-") and plain.endswith(f"-{suffix}"):
            return value
    raise InvalidSignature(f"The request has no header X-…-{suffix.title()}.")
