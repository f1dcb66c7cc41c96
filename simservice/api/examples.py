"""An example of every error with its `meta` (docs/reference/errors.md#codes)."""

from collections.abc import Iterator
from typing import Any

from simservice.api import errors
from simservice.api.errors import ApiError

REQUEST_ID = "req_5f0c1d2e3a4b5968778695a4b3c2d1e0"
JOB_ID = "176352841234500042"
HOST = "https://sim.example.com"
NOTHING_BLOCKED: dict[str, Any] = {"blocked": [], "blockedCount": 0, "blockedTruncated": False}
TOO_MANY_VARIANTS = "The profile has 12000 variants; the plan allows 10000."
REJECTED_REASON = "it makes the simulator do something other than simulate"
REJECTED = f"Line 7, save=/tmp/x: {REJECTED_REASON}."
PIN = {
    "buildId": "0b8f6a52-6f3b-4a7e-9d55-2f3f6c1b7a10",
    "maxPinAgeDays": 30,
    **NOTHING_BLOCKED,
}


def _docs_url(code: str) -> str:
    """Return the URL of the documentation of an error code."""
    return f"{HOST}/docs/errors#{code}"


EXAMPLES: list[ApiError] = [
    errors.ValidationFailed([{"path": "build.channel", "message": "Must be one of: nightly, weekly, latest."}]),
    errors.InsufficientCredits(
        {
            "reason": "insufficient_credits",
            "ceilingMaxCredits": 57600,
            "maxAffordableCredits": 3200,
            "ceilingRuntimeSeconds": 1800,
            "maxAffordableRuntimeSeconds": 100,
            "requiredCredits": 57920,
            "priorityFeeCredits": 320,
            "docsUrl": _docs_url("insufficient_credits_liability"),
        }
    ),
    errors.ResultNotReady({"status": "running"}),
    errors.IdempotencyKeyReuse(
        {
            "reason": "different_request",
            "originalJobId": JOB_ID,
            "docsUrl": _docs_url("idempotency_key_reuse"),
        }
    ),
    errors.JobNotCancellable({"id": JOB_ID, "status": "completed"}),
    errors.ResultUnavailable({"status": "cancelled"}),
    errors.ProfileRefused(
        {
            "message": REJECTED,
            "docsUrl": _docs_url("input_sanitized_rejected"),
            "blocked": [{"line": 7, "text": "save=/tmp/x", "reason": REJECTED_REASON}],
            "blockedCount": 1,
            "blockedTruncated": False,
        },
        message=REJECTED,
    ),
    errors.TooManyVariants(
        {
            "message": TOO_MANY_VARIANTS,
            "docsUrl": _docs_url("too_many_variants"),
            "totalVariants": 12000,
            "maxVariants": 10000,
            "upgradeUrl": None,
            **NOTHING_BLOCKED,
        },
        message=TOO_MANY_VARIANTS,
    ),
    errors.BuildPinNotAllowed(
        {
            "message": errors.BuildPinNotAllowed.message,
            "docsUrl": _docs_url("build_pin_not_allowed"),
            **PIN,
        }
    ),
    errors.BuildPinUnavailable(
        {
            "message": errors.BuildPinUnavailable.message,
            "docsUrl": _docs_url("build_pin_unavailable"),
            **PIN,
        }
    ),
    errors.MaxActiveJobsExceeded({"reason": "active_jobs", "maxActiveJobs": 200, "activeJobs": 200}),
    errors.RateLimitExceeded({"scope": "developer", "limit": "submissions"}),
    errors.QueueUnavailable({"reason": "queue_full", "queueHealth": "full"}),
    errors.SecretStoreUnavailable({"reason": "redis_unavailable"}),
    errors.ApiMaintenance({"retryAfterSeconds": 600}),
]


def family(member: type[ApiError] = ApiError) -> Iterator[type[ApiError]]:
    """Yield every error class that has a code, in order of definition."""
    for child in member.__subclasses__():
        if child.__dict__.get("code"):
            yield child
        yield from family(child)


def example_of(error: type[ApiError]) -> ApiError:
    """Return the example of an error, or an instance without `meta` if there is none."""
    return next((example for example in EXAMPLES if type(example) is error), None) or error()


def envelope_of(error: type[ApiError]) -> dict[str, Any]:
    """Return the envelope of the example."""
    return errors.envelope(example_of(error), REQUEST_ID)
