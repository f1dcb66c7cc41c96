"""The HTTP errors of jobs, and those that stand for `jobs/errors.py` (docs/reference/errors.md#codes)."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from jobs import errors
from jobs.planning.input_text import LINE_BREAKS_LOST, NOTHING_TO_SIMULATE, shown
from jobs.submission.validation import MAX_PIN_AGE_DAYS
from simservice.api import errors as http
from simservice.api.errors import docs_url
from simservice.api.exception_handler import as_api_error

EXAMPLE_JOB_ID = "176352841234500042"
EXAMPLE_REASON = "it makes the simulator do something other than simulate"
NOTHING_BLOCKED: dict[str, Any] = {"blocked": [], "blockedCount": 0, "blockedTruncated": False}
EXAMPLE_PIN = {"buildId": "0b8f6a52-6f3b-4a7e-9d55-2f3f6c1b7a10", "maxPinAgeDays": 30, **NOTHING_BLOCKED}
# Files are removed as jobs expire, which seldom helps within minutes.
STORAGE_RETRY_SECONDS = 3600
# JSON paths of submission fields
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
    message = "The account is suspended and cannot submit or resume jobs."


class ReportFileMissing(http.NotFound):
    message = (
        "The link has no such file. Check that the job has ended and has not expired, that it requested the file, "
        "and that its link shows it."
    )


class ResultNotReady(http.ApiError):
    status, code = 409, "result_not_ready"
    message = "The job has not ended yet."
    example = {"status": "running"}


class IdempotencyKeyReuse(http.ApiError):
    status, code = 409, "idempotency_key_reuse"
    message = "The idempotency key was already used for a different request."
    documented = True
    example = {"reason": code, "originalJobId": EXAMPLE_JOB_ID, "docsUrl": docs_url(code)}


class JobNotCancellable(http.ApiError):
    status, code = 409, "job_not_cancellable"
    message = "The job has already ended."
    example = {"id": EXAMPLE_JOB_ID, "status": "completed"}


class JobNotPausable(http.ApiError):
    status, code = 409, "job_not_pausable"
    message = "The job has already ended or is being cancelled."
    example = {"id": EXAMPLE_JOB_ID, "status": "completed"}


class PauseLimitReached(http.ApiError):
    status, code = 409, "pause_limit_reached"
    message = "The job cannot be paused again, because it has reached the maximum number of pauses."
    example = {"maxPauses": 20}


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
    example = {"reason": code, "maxActiveJobs": 200, "activeJobs": 200}


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


def _profile_rejected(error: errors.ProfileRejected) -> http.ApiError:
    first, others = error.refusals[0], error.count - 1
    more = f" {others:,} more {'directive is' if others == 1 else 'directives are'} refused." if others else ""
    message = f"Line {first.line}, {shown(first.text)}: {first.reason}.{more}"
    blocked = [{"line": each.line, "text": shown(each.text), "reason": each.reason} for each in error.refusals]
    truncated = error.count > len(blocked)
    meta = {"message": message, "blocked": blocked, "blockedCount": error.count, "blockedTruncated": truncated}
    return ProfileRefused(meta, message=message)


def _unprocessable(kind: type[http.ApiError], message: str, **meta: Any) -> http.ApiError:
    return kind({"message": message, **meta, **NOTHING_BLOCKED}, message=message)


def _nothing_to_simulate(error: errors.NothingToSimulate) -> http.ApiError:
    hint = f" {LINE_BREAKS_LOST}" if error.lost_line_breaks else ""
    return _unprocessable(ProfileRefused, f"{NOTHING_TO_SIMULATE}{hint}")


def _too_many_variants(error: errors.VariantLimitExceeded) -> http.ApiError:
    message = f"The profile has {error.variants} variants; the plan allows {error.limit}."
    counts = {"totalVariants": error.variants, "maxVariants": error.limit}
    return _unprocessable(TooManyVariants, message, **counts, upgradeUrl=None)


def _pin_refused(kind: type[http.ApiError], message: str, build_id: UUID) -> http.ApiError:
    return _unprocessable(kind, message, buildId=str(build_id), maxPinAgeDays=MAX_PIN_AGE_DAYS)


def _pin_unavailable(error: errors.PinUnavailable) -> http.ApiError:
    known = f"There is no build {error.build_id} on {error.git_branch}"
    return _pin_refused(
        BuildPinUnavailable, f"{known}, or it is over {error.max_age_days} days old.", error.build_id
    )


def _limits_exceeded(error: errors.LimitsExceeded) -> http.ApiError:
    return http.ValidationFailed(
        [
            {"path": PATHS[field], "message": f"Must be at most {limit:,}, your plan's limit."}
            for field, limit in error.limits.items()
        ]
    )


def _cap_too_small(error: errors.CapTooSmall) -> http.ApiError:
    message = f"Must be at least {error.minimum:,}, the price of one second."
    return http.ValidationFailed([{"path": PATHS["max_credits"], "message": message}])


def _storage_full(error: errors.StorageLimitReached) -> http.ApiError:
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


def _credits_missing(error: errors.CreditsMissing) -> http.ApiError:
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


def _too_many_active_jobs(error: errors.ActiveJobLimitReached) -> http.ApiError:
    return MaxActiveJobsExceeded(
        {"reason": MaxActiveJobsExceeded.code, "maxActiveJobs": error.limit, "activeJobs": error.active},
        headers={"X-Active-Jobs": str(error.active), "X-Max-Active-Jobs": str(error.limit)},
    )


# How each error of `jobs/errors.py` becomes an HTTP error
TRANSLATIONS: dict[type[errors.JobsError], Callable[[Any], http.ApiError]] = {
    errors.ProfileRejected: _profile_rejected,
    errors.ProfileTooComplex: lambda error: _unprocessable(
        ProfileRefused, f"The profile has {error.excess}; split it into several jobs."
    ),
    errors.NothingToSimulate: _nothing_to_simulate,
    errors.VariantLimitExceeded: _too_many_variants,
    errors.PinNotAllowed: lambda error: _pin_refused(
        BuildPinNotAllowed, BuildPinNotAllowed.message, error.build_id
    ),
    errors.PinUnavailable: _pin_unavailable,
    errors.LimitsExceeded: _limits_exceeded,
    errors.CapTooSmall: _cap_too_small,
    errors.WebhookNotEnabled: lambda _: WebhookNotConfigured(),
    errors.AccountSuspended: lambda _: InactiveEntitlement(),
    errors.ActiveJobLimitReached: _too_many_active_jobs,
    errors.StorageLimitReached: _storage_full,
    errors.CreditsMissing: _credits_missing,
    errors.IdempotencyKeyReused: lambda error: IdempotencyKeyReuse(
        {"reason": IdempotencyKeyReuse.code, "originalJobId": str(error.job_id)}
    ),
    errors.QueueFull: lambda _: http.QueueUnavailable({"reason": "queue_full", "queueHealth": "full"}),
    errors.CredentialStoreUnavailable: lambda _: http.SecretStoreUnavailable({"reason": "redis_unavailable"}),
    errors.JobNotPausable: lambda error: JobNotPausable({"id": str(error.job_id), "status": error.status}),
    errors.PauseLimitReached: lambda error: PauseLimitReached({"maxPauses": error.limit}),
    errors.JobAlreadyEnded: lambda error: JobNotCancellable({"id": str(error.job_id), "status": error.status}),
    errors.NotFound: lambda _: http.NotFound(),
    errors.ArtifactRemoved: lambda _: ArtifactExpired(),
}
for kind, translate in TRANSLATIONS.items():
    as_api_error.register(kind, translate)
