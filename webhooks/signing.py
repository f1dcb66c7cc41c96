"""Signatures and headers of deliveries (`docs/reference/webhooks.md#verify-the-signature`)."""

import hashlib
import hmac
from collections.abc import Sequence

from django.conf import settings


def signature(secret: str, body: bytes, *, at: int) -> str:
    """Return the hex HMAC-SHA256 of a body sent at a Unix time in seconds."""
    signed = f"{at}.".encode() + body
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def headers(secrets: Sequence[str], body: bytes, *, at: int, event: str, delivery: str) -> dict[str, str]:
    """Return the headers of a delivery, with one signature for each secret, in their order."""
    signatures = ",".join(f"v1={signature(secret, body, at=at)}" for secret in secrets)
    return signed_headers(f"t={at},{signatures}", event=event, delivery=delivery)


def signed_headers(signatures: str, *, event: str, delivery: str) -> dict[str, str]:
    """Return the headers of a delivery, given the value of its signature header."""
    brand = settings.SERVICE_BRAND
    return {
        signature_header(): signatures,
        f"X-{brand}-Event-Id": event,
        f"X-{brand}-Delivery-Id": delivery,
        "Content-Type": "application/json",
        "User-Agent": f"{brand}-Webhooks/1",
    }


def signature_header() -> str:
    """Return the name of the header with the signatures."""
    return f"X-{settings.SERVICE_BRAND}-Signature"
