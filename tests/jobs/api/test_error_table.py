"""Every error of the API is produced with its documented status, code and `meta`."""

import pytest

from simservice.api.examples import family
from tests.jobs.api.error_cases import CASES, CaseContext

META = {
    "validation_failed": {"issues"},
    "insufficient_credits_liability": {
        "reason", "ceilingMaxCredits", "maxAffordableCredits", "ceilingRuntimeSeconds",
        "maxAffordableRuntimeSeconds", "requiredCredits", "docsUrl",
    },
    "idempotency_key_reuse": {"reason", "originalJobId", "docsUrl"},
    "result_not_ready": {"status"},
    "result_unavailable": {"reason", "status"},
    "job_not_cancellable": {"id", "status"},
    "input_sanitized_rejected": {
        "reason", "message", "docsUrl", "blocked", "blockedCount", "blockedTruncated",
    },
    "too_many_variants": {
        "reason", "message", "docsUrl", "totalVariants", "maxVariants", "upgradeUrl", "blocked", "blockedCount",
        "blockedTruncated",
    },
    "build_pin_not_allowed": {
        "reason", "message", "docsUrl", "buildId", "maxPinAgeDays", "blocked", "blockedCount", "blockedTruncated",
    },
    "rate_limit_exceeded": {"scope", "limit"},
    "max_active_jobs_exceeded": {"reason", "maxActiveJobs", "activeJobs"},
    "queue_unavailable": {"reason", "queueHealth"},
    "secret_store_unavailable": {"reason"},
    "api_maintenance": {"retryAfterSeconds"},
}  # fmt: skip
META["build_pin_unavailable"] = META["build_pin_not_allowed"]


def test_every_error_has_a_case() -> None:
    assert set(CASES) == {error.code for error in family()}


@pytest.mark.parametrize("code", sorted(error.code for error in family()))
def test_each_error_has_its_status_code_and_meta(case_context: CaseContext, code: str) -> None:
    response = CASES[code](case_context)
    (error,) = [error for error in family() if error.code == code]
    body = response.json()
    assert (response.status_code, body["code"]) == (error.status, code)
    assert set(body) == {"error", "code", "meta", "requestId"}
    assert body["error"]
    assert set(body["meta"] or ()) == META.get(code, set())
    assert response.status_code != 422 or body["meta"]["reason"] == code
    assert body["requestId"] == response.headers["X-Request-Id"]
    assert ("WWW-Authenticate" in response.headers) == (error.status == 401)
    assert ("Retry-After" in response.headers) == (error.status in (429, 503) or code == "result_not_ready")
