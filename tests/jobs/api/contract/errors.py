"""Handwritten schemas of errors."""

from tests.jobs.api.contract.types import (
    BOOLEAN,
    COUNT,
    DOCS,
    ID,
    NULL,
    POSITIVE,
    REQUEST_ID,
    TERMINAL,
    TEXT,
    UNFINISHED,
    UUID,
    Schema,
    an_object,
    many,
    matching,
    one_of,
    or_null,
)


def reason(code: str) -> dict[str, Schema]:
    return {"reason": {"const": code}}


BLOCKED_TEXT = {"type": "string", "maxLength": 200}
BLOCKED = {
    "message": TEXT,
    "docsUrl": DOCS,
    "blocked": many(an_object({"line": POSITIVE, "text": BLOCKED_TEXT, "reason": TEXT}), 20),
    "blockedCount": COUNT,
    "blockedTruncated": BOOLEAN,
}
PIN = BLOCKED | {"buildId": UUID, "maxPinAgeDays": {"const": 30}}
METAS: dict[str, Schema] = {
    "validation_failed": an_object({"issues": many(an_object({"path": TEXT, "message": TEXT}))}),
    "insufficient_credits_liability": an_object(
        {
            "reason": TEXT,
            "ceilingMaxCredits": COUNT,
            "maxAffordableCredits": COUNT,
            "ceilingRuntimeSeconds": COUNT,
            "maxAffordableRuntimeSeconds": COUNT,
            "requiredCredits": COUNT,
            "docsUrl": DOCS,
        },
        priorityFeeCredits=COUNT,
    ),
    "idempotency_key_reuse": an_object({"reason": TEXT, "originalJobId": ID, "docsUrl": DOCS}),
    "result_not_ready": an_object({"status": UNFINISHED}),
    "job_not_cancellable": an_object({"id": ID, "status": one_of("completed", "failed", "timed_out")}),
    "input_sanitized_rejected": an_object(reason("input_sanitized_rejected") | BLOCKED),
    "too_many_variants": an_object(
        reason("too_many_variants")
        | BLOCKED
        | {"totalVariants": COUNT, "maxVariants": COUNT, "upgradeUrl": or_null(TEXT)}
    ),
    "build_pin_not_allowed": an_object(reason("build_pin_not_allowed") | PIN),
    "build_pin_unavailable": an_object(reason("build_pin_unavailable") | PIN),
    "result_unavailable": an_object(reason("result_unavailable") | {"status": TERMINAL}),
    "rate_limit_exceeded": an_object(
        {
            "scope": one_of("developer", "address"),
            "limit": one_of("submissions", "bytes", "checks", "checked_bytes", "reads", "public"),
        }
    ),
    "max_active_jobs_exceeded": an_object({"reason": TEXT, "maxActiveJobs": COUNT, "activeJobs": COUNT}),
    "queue_unavailable": an_object({"reason": TEXT, "queueHealth": TEXT}),
    "secret_store_unavailable": an_object({"reason": TEXT}),
    "api_maintenance": an_object({"retryAfterSeconds": COUNT}),
}
CODES = {
    400: {"validation_failed", "webhook_not_configured", "invalid_cursor", "invalid_json"},
    401: {"missing_token", "invalid_token", "revoked_token", "expired_token"},
    403: {"read_only_key"},
    402: {"insufficient_credits_liability", "inactive_entitlement"},
    404: {"not_found"},
    405: {"method_not_allowed"},
    409: {"idempotency_key_reuse", "result_not_ready", "job_not_cancellable"},
    410: {"artifact_expired"},
    413: {"profile_too_large", "request_too_large"},
    416: {"validation_failed"},
    415: {"unsupported_media_type"},
    422: {
        "input_sanitized_rejected",
        "too_many_variants",
        "build_pin_not_allowed",
        "build_pin_unavailable",
        "result_unavailable",
    },
    429: {"rate_limit_exceeded", "max_active_jobs_exceeded"},
    500: {"internal_error"},
    503: {"queue_unavailable", "secret_store_unavailable", "api_maintenance"},
}


def error(status: int, code: str) -> Schema:
    """Return the schema of an error. Raises KeyError if the status does not have the code."""
    if code not in CODES[status]:
        raise KeyError(f"{status} {code}")
    raised = {"priorityFeeCredits": COUNT} if code == "insufficient_credits_liability" else {}
    meta = METAS.get(code, NULL)
    return an_object(
        {"error": matching(".+"), "code": {"const": code}, "meta": meta, "requestId": REQUEST_ID}, **raised
    )
