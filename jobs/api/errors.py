"""The HTTP response of each error in `jobs/errors.py` (docs/reference/errors.md#codes)."""

from typing import Any
from uuid import UUID

from jobs import errors
from jobs.planning.input_text import LINE_BREAKS_LOST, NOTHING_TO_SIMULATE, shown
from jobs.submission.validation import MAX_PIN_AGE_DAYS
from simc.profiles.policy import Refusal
from simservice.api import errors as http
from simservice.api.exception_handler import as_api_error

NOTHING_BLOCKED: dict[str, Any] = {"blocked": [], "blockedCount": 0, "blockedTruncated": False}
# Files are removed as jobs expire, which seldom helps within minutes.
STORAGE_RETRY_SECONDS = 3600
# Where a field of the submission is in the JSON form.
PATHS = {
    "max_credits": "runtime.maxCredits",
    "max_runtime_seconds": "runtime.maxRuntimeSeconds",
    "max_queue_seconds": "runtime.maxQueueSeconds",
}


@as_api_error.register
def _(error: errors.ProfileRejected) -> http.ApiError:
    first = error.refusals[0]
    others = error.count - 1
    more = f" {others:,} more {'directive is' if others == 1 else 'directives are'} refused." if others else ""
    message = f"Line {first.line}, {shown(first.text)}: {first.reason}.{more}"
    return http.ProfileRefused(
        {
            "message": message,
            "blocked": [_blocked(refusal) for refusal in error.refusals],
            "blockedCount": error.count,
            "blockedTruncated": error.count > len(error.refusals),
        },
        message=message,
    )


def _blocked(refusal: Refusal) -> dict[str, Any]:
    return {"line": refusal.line, "text": shown(refusal.text), "reason": refusal.reason}


@as_api_error.register
def _(error: errors.ProfileTooComplex) -> http.ApiError:
    return _profile_refused(f"The profile has {error.excess}; split it into several jobs.")


@as_api_error.register
def _(error: errors.NothingToSimulate) -> http.ApiError:
    hint = f" {LINE_BREAKS_LOST}" if error.lost_line_breaks else ""
    return _profile_refused(f"{NOTHING_TO_SIMULATE}{hint}")


def _profile_refused(message: str) -> http.ApiError:
    return http.ProfileRefused({"message": message, **NOTHING_BLOCKED}, message=message)


@as_api_error.register
def _(error: errors.VariantLimitExceeded) -> http.ApiError:
    message = f"The profile has {error.variants} variants; the plan allows {error.limit}."
    return http.TooManyVariants(
        {
            "message": message,
            "totalVariants": error.variants,
            "maxVariants": error.limit,
            "upgradeUrl": None,
            **NOTHING_BLOCKED,
        },
        message=message,
    )


@as_api_error.register
def _(error: errors.PinNotAllowed) -> http.ApiError:
    return http.BuildPinNotAllowed(_pin(error.build_id, http.BuildPinNotAllowed.message))


@as_api_error.register
def _(error: errors.PinUnavailable) -> http.ApiError:
    message = (
        f"There is no build {error.build_id} on {error.git_branch}, or it is over {error.max_age_days} days old."
    )
    return http.BuildPinUnavailable(_pin(error.build_id, message), message=message)


def _pin(build_id: UUID, message: str) -> dict[str, Any]:
    return {"message": message, "buildId": str(build_id), "maxPinAgeDays": MAX_PIN_AGE_DAYS, **NOTHING_BLOCKED}


@as_api_error.register
def _(error: errors.LimitsExceeded) -> http.ApiError:
    return http.ValidationFailed(
        [
            {"path": PATHS[field], "message": f"Must be at most {limit:,}, your plan's limit."}
            for field, limit in error.limits.items()
        ]
    )


@as_api_error.register
def _(error: errors.CapTooSmall) -> http.ApiError:
    message = f"Must be at least {error.minimum:,}, the price of one second."
    return http.ValidationFailed([{"path": PATHS["max_credits"], "message": message}])


@as_api_error.register
def _(error: errors.WebhookNotEnabled) -> http.ApiError:  # noqa: ARG001
    return http.WebhookNotConfigured()


@as_api_error.register
def _(error: errors.AccountSuspended) -> http.ApiError:  # noqa: ARG001
    return http.InactiveEntitlement()


@as_api_error.register
def _(error: errors.ActiveJobLimitReached) -> http.ApiError:
    return http.MaxActiveJobsExceeded(
        {"reason": "active_jobs", "maxActiveJobs": error.limit, "activeJobs": error.active}
    )


@as_api_error.register
def _(error: errors.StorageLimitReached) -> http.ApiError:
    return http.RateLimitExceeded(
        {
            "scope": "developer",
            "limit": "storage",
            "storedBytes": error.stored_bytes,
            "maxStoredBytes": error.limit,
        },
        message=f"The account's files have reached the storage limit of its plan, {error.limit:,} bytes. Expired "
        "files are removed automatically. Try again later, or change to a plan with more storage.",
        headers={"Retry-After": str(STORAGE_RETRY_SECONDS)},
    )


@as_api_error.register
def _(error: errors.CreditsMissing) -> http.ApiError:
    fee = {} if error.fee_credits is None else {"priorityFeeCredits": error.fee_credits}
    return http.InsufficientCredits(
        {
            "reason": "insufficient_credits",
            "ceilingMaxCredits": error.ceiling_credits,
            "maxAffordableCredits": error.affordable_credits,
            "ceilingRuntimeSeconds": error.ceiling_seconds,
            "maxAffordableRuntimeSeconds": error.affordable_seconds,
            "requiredCredits": error.required_credits,
            **fee,
        }
    )


@as_api_error.register
def _(error: errors.IdempotencyKeyReused) -> http.ApiError:
    return http.IdempotencyKeyReuse({"reason": "different_request", "originalJobId": str(error.job_id)})


@as_api_error.register
def _(error: errors.QueueFull) -> http.ApiError:  # noqa: ARG001
    return http.QueueUnavailable({"reason": "queue_full", "queueHealth": "full"})


@as_api_error.register
def _(error: errors.CredentialStoreUnavailable) -> http.ApiError:  # noqa: ARG001
    return http.SecretStoreUnavailable({"reason": "redis_unavailable"})


@as_api_error.register
def _(error: errors.JobAlreadyEnded) -> http.ApiError:
    return http.JobNotCancellable({"id": str(error.job_id), "status": error.status})


@as_api_error.register
def _(error: errors.NotFound) -> http.ApiError:  # noqa: ARG001
    return http.NotFound()


@as_api_error.register
def _(error: errors.ArtifactRemoved) -> http.ApiError:  # noqa: ARG001
    return http.ArtifactExpired()
