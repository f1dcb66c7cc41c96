"""The errors of the API in the words of the job form."""

from collections.abc import Mapping
from typing import Any

from jobs import api_mode
from jobs.api.errors import InsufficientCredits, WebhookNotConfigured
from simservice.api.errors import ApiError, RateLimitExceeded

NO_WEBHOOK = "This client has no enabled webhook. Enable it on the client's page, or choose another client."


def message_of(error: ApiError) -> str:
    """Return the text of an API error for the form."""
    meta = error.meta or {}
    if isinstance(error, WebhookNotConfigured):
        return NO_WEBHOOK
    if isinstance(error, InsufficientCredits):
        return f"{error.message} The job needs {meta['requiredCredits']:,} credits. {_affordable_limit(meta)}"
    if isinstance(error, RateLimitExceeded) and meta["limit"] != "storage":
        return "Too many requests or too much data. Try again in a minute."
    return str(meta.get("message", error.message))


def _affordable_limit(meta: Mapping[str, Any]) -> str:
    """Return what to do about a shortage of credits, in the unit of the form's limit."""
    if not meta["maxAffordableRuntimeSeconds"]:
        return "Add credits, then try again."
    if api_mode.current().cap_field == "maxCredits":
        return f"Lower the credit limit to {meta['maxAffordableCredits']:,} or less."
    return f"Lower the runtime limit to {meta['maxAffordableRuntimeSeconds']:,} s or less."
