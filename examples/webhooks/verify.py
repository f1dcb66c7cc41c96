"""Verify webhooks in Python, with the standard library only.

Call `verify` with the raw body, before anything parses it. A body that was parsed and serialized again can differ.
"""

import hashlib
import hmac
import time

TOLERANCE_SECONDS = 300


def verify(secret: str, signature: str, body: bytes, *, now: float | None = None) -> bool:
    """Return whether a body was signed with the secret, at most five minutes ago.

    `signature` is the header `X-Service-Signature`, `t=…,v1=…`. During the overlap of a rotation, it has one `v1`
    for each of the two secrets; one of them must match.
    """
    parts = [part.strip().partition("=") for part in signature.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    digests = [value for name, _, value in parts if name == "v1"]
    # Anyone can sign with an empty secret.
    if not secret or len(times) != 1 or not (times[0].isascii() and times[0].isdigit()) or not digests:
        return False
    if abs((time.time() if now is None else now) - int(times[0])) > TOLERANCE_SECONDS:
        return False
    signed = times[0].encode() + b"." + body
    expected = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return any(hmac.compare_digest(digest.encode(), expected.encode()) for digest in digests)
