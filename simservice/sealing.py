"""Encryption of what must be read again: each purpose has a key of its own, made from the deployment's text."""

import base64
import hashlib
import hmac
from collections.abc import Sequence

from cryptography.fernet import Fernet, MultiFernet


def cipher(keys: Sequence[str], *, purpose: str) -> MultiFernet:
    """Return what seals with the first key, and opens what any of them has sealed for this purpose."""
    return MultiFernet([Fernet(derived(key, purpose=purpose)) for key in keys])


def derived(key: str, *, purpose: str) -> bytes:
    """Return a Fernet key of one purpose; any text serves as the deployment's."""
    return base64.urlsafe_b64encode(hmac.new(key.encode(), purpose.encode(), hashlib.sha256).digest())
