"""The HTTP errors of jobs, and those that stand for `jobs/errors.py` (docs/reference/errors.md#codes)."""

from typing import Any
from uuid import UUID

from jobs import errors
from jobs.planning.input_text import LINE_BREAKS_LOST, NOTHING_TO_SIMULATE, shown
from jobs.submission.validation import MAX_PIN_AGE_DAYS
from simc.profiles.policy import Refusal
from simservice.api import errors as http
from simservice.api.examples import docs_url
from simservice.api.exception_handler import as_api_error

EXAMPLE_JOB_ID = "176352841234500042"
EXAMPLE_REASON = "it makes the simulator do something other than simulate"
NOTHING_BLOCKED: dict[str, Any] = {"blocked": [], "blockedCount": 0, "blockedTruncated": False}
EXAMPLE_PIN = {"buildId": "0b8f6a52-6f3b-4a7e-9d55-2f3f6c1b7a10", "maxPinAgeDays": 30, **NOTHING_BLOCKED}
# Files are removed as jobs expire, which seldom helps within minutes.
STORAGE_RETRY_SECONDS = 3600
# Where a field of the submission is in the JSON form.
PATHS = {
    "max_credits": "runtime.maxCredits",
    "max_runtime_seconds": "runtime.maxRuntimeSeconds",
    "max_queue_seconds": "runtime.maxQueueSeconds",
}


class WebhookNotConfigured(http.ApiError):
    status, code = 400, "webhook_not_configured"
    message = "The client of this key has no enabled webhook. Set one up or omit webhook.events."


class InsufficientCredits(http.ApiError):
    """The account cannot reserve the credits of the job; `meta` says what it can afford."""

    status, code = 402, "insufficient_credits_liability"
    message = "The account does not have enough credits for this job."
    documented = True
    raised_keys = ("priorityFeeCredits",)
    example = {
        "reason": "insufficient_credits",
        "ceilingMaxCredits": 57600,
        "maxAffordableCredits": 3200,
        "ceilingRuntimeSeconds": 1800,
        "maxAffordableRuntimeSeconds": 100,
        "requiredCredits": 57920,
        "priorityFeeCredits": 320,
        "docsUrl": docs_url(code),
    }


class InactiveEntitlement(http.ApiError):
    status, code = 402, "inactive_entitlement"
    message = "The account is suspended and cannot submit jobs."


class ResultNotReady(http.ApiError):
    status, code = 409, "result_not_ready"
    message = "The job has not ended yet."
    example = {"status": "running"}


class IdempotencyKeyReuse(http.ApiError):
    status, code = 409, "idempotency_key_reuse"
    message = "The idempotency key was already used for a different request."
    documented = True
    example = {"reason": "different_request", "originalJobId": EXAMPLE_JOB_ID, "docsUrl": docs_url(code)}


class JobNotCancellable(http.ApiError):
    status, code = 409, "job_not_cancellable"
    message = "The job has already ended."
    example = {"id": EXAMPLE_JOB_ID, "status": "completed"}


class ArtifactExpired(http.ApiError):
    status, code = 410, "artifact_expired"
    message = "The artifact was removed at the end of the retention period."


class ResultUnavailable(http.Unprocessable):
    code = "result_unavailable"
    message = "The job ended without a run, so there is no result."
    example = {"status": "cancelled"}


class ProfileRefused(http.Unprocessable):
    """The profile contains refused options; `blocked` lists the first ones."""

    code = "input_sanitized_rejected"
    message = "The profile contains directives that are not allowed."
    documented = True
    example = {
        "message": f"Line 7, save=/tmp/x: {EXAMPLE_REASON}.",
        "docsUrl": docs_url(code),
        "blocked": [{"line": 7, "text": "save=/tmp/x", "reason": EXAMPLE_REASON}],
        "blockedCount": 1,
        "blockedTruncated": False,
    }


class TooManyVariants(http.Unprocessable):
    code = "too_many_variants"
    message = "The profile has more variants than the plan allows."
    documented = True
    example = {
        "message": "The profile has 12000 variants; the plan allows 10000.",
        "docsUrl": docs_url(code),
        "totalVariants": 12000,
        "maxVariants": 10000,
        "upgradeUrl": None,
        **NOTHING_BLOCKED,
    }


class BuildPinNotAllowed(http.Unprocessable):
    code = "build_pin_not_allowed"
    message = "The account's plan does not allow pinning a build."
    documented = True
    example = {"message": message, "docsUrl": docs_url(code), **EXAMPLE_PIN}


class BuildPinUnavailable(http.Unprocessable):
    code = "build_pin_unavailable"
    message = "The pinned build cannot be used."
    documented = True
    example = {"message": message, "docsUrl": docs_url(code), **EXAMPLE_PIN}


class MaxActiveJobsExceeded(http.ApiError):
    status, code = 429, "max_active_jobs_exceeded"
    message = "The account has reached its plan's limit on unfinished jobs."
    headers = {"Retry-After": "10"}
    example = {"reason": "active_jobs", "maxActiveJobs": 200, "activeJobs": 200}


# The errors of a submission, in the order of the documentation.
OF_SUBMISSIONS: list[type[http.ApiError]] = [
    http.InvalidJson,
    WebhookNotConfigured,
    InsufficientCredits,
    InactiveEntitlement,
    IdempotencyKeyReuse,
    http.ProfileTooLarge,
    http.UnsupportedMediaType,
    ProfileRefused,
    TooManyVariants,
    BuildPinNotAllowed,
    BuildPinUnavailable,
    MaxActiveJobsExceeded,
    http.QueueUnavailable,
    http.SecretStoreUnavailable,
]


@as_api_error.register
def _(error: errors.ProfileRejected) -> http.ApiError:
    first = error.refusals[0]
    others = error.count - 1
    more = f" {others:,} more {'directive is' if others == 1 else 'directives are'} refused." if others else ""
    message = f"Line {first.line}, {shown(first.text)}: {first.reason}.{more}"
    return ProfileRefused(
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
    return ProfileRefused({"message": message, **NOTHING_BLOCKED}, message=message)


@as_api_error.register
def _(error: errors.VariantLimitExceeded) -> http.ApiError:
    message = f"The profile has {error.variants} variants; the plan allows {error.limit}."
    return TooManyVariants(
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
    return BuildPinNotAllowed(_pin(error.build_id, BuildPinNotAllowed.message))


@as_api_error.register
def _(error: errors.PinUnavailable) -> http.ApiError:
    message = (
        f"There is no build {error.build_id} on {error.git_branch}, or it is over {error.max_age_days} days old."
    )
    return BuildPinUnavailable(_pin(error.build_id, message), message=message)


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
    return WebhookNotConfigured()


@as_api_error.register
def _(error: errors.AccountSuspended) -> http.ApiError:  # noqa: ARG001
    return InactiveEntitlement()


@as_api_error.register
def _(error: errors.ActiveJobLimitReached) -> http.ApiError:
    return MaxActiveJobsExceeded(
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
    return InsufficientCredits(
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
    return IdempotencyKeyReuse({"reason": "different_request", "originalJobId": str(error.job_id)})


@as_api_error.register
def _(error: errors.QueueFull) -> http.ApiError:  # noqa: ARG001
    return http.QueueUnavailable({"reason": "queue_full", "queueHealth": "full"})


@as_api_error.register
def _(error: errors.CredentialStoreUnavailable) -> http.ApiError:  # noqa: ARG001
    return http.SecretStoreUnavailable({"reason": "redis_unavailable"})


@as_api_error.register
def _(error: errors.JobAlreadyEnded) -> http.ApiError:
    return JobNotCancellable({"id": str(error.job_id), "status": error.status})


@as_api_error.register
def _(error: errors.NotFound) -> http.ApiError:  # noqa: ARG001
    return http.NotFound()


@as_api_error.register
def _(error: errors.ArtifactRemoved) -> http.ApiError:  # noqa: ARG001
    return ArtifactExpired()
