"""The API's errors: one class per thing a caller can act on, all wording in this file (contract, section 1)."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, JsonResponse

Meta = Mapping[str, Any]


class ApiError(Exception):
    """An answer that is not a success. `code` is stable; `message` may be reworded."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = {}
    # Whether `meta` carries the address of the error's explanation, as `docsUrl`.
    documented = False

    def __init__(self, meta: Meta | None = None, *, message: str | None = None) -> None:
        super().__init__(self.code)
        self.meta = meta
        if message is not None:
            self.message = message


class ValidationFailed(ApiError):
    """The request does not have the form it must have; `issues` names each place."""

    status, code = 400, "validation_failed"
    message = "The request is not valid; meta.issues lists each problem."

    def __init__(self, issues: list[dict[str, str]]) -> None:
        super().__init__({"issues": issues})


class InvalidJson(ApiError):
    status, code = 400, "invalid_json"
    message = "The body is not valid JSON."


class WebhookNotConfigured(ApiError):
    status, code = 400, "webhook_not_configured"
    message = "webhook.events was given, but the key's client has no webhook URL and secret."


class Unauthorized(ApiError):
    """No acceptable credential; the four kinds differ in what the caller should do."""

    status = 401
    headers = {"WWW-Authenticate": "Bearer"}


class MissingToken(Unauthorized):
    code = "missing_token"
    message = "Send an API key: Authorization: Bearer <API key>."


class InvalidToken(Unauthorized):
    code = "invalid_token"
    message = "This is not an API key of this service."


class RevokedToken(Unauthorized):
    code = "revoked_token"
    message = "This API key has been revoked."


class ExpiredToken(Unauthorized):
    code = "expired_token"
    message = "This API key has expired."


class NotFound(ApiError):
    status, code = 404, "not_found"
    message = "There is nothing here."


class MethodNotAllowed(ApiError):
    status, code = 405, "method_not_allowed"
    message = "This address does not take that method."


class ResultNotReady(ApiError):
    status, code = 409, "result_not_ready"
    message = "The job has not ended yet."


class RequestTooLarge(ApiError):
    status, code = 413, "request_too_large"
    message = "The request body is over 3 MB."


class ProfileTooLarge(ApiError):
    status, code = 413, "profile_too_large"
    message = "The profile text is over 2 MB (2,097,152 bytes of UTF-8)."


class UnsupportedMediaType(ApiError):
    status, code = 415, "unsupported_media_type"
    message = "Send Content-Type: application/json."


class ResultUnavailable(ApiError):
    status, code = 422, "result_unavailable"
    message = "The job ended without a run, so there is no result."


class ProfileRefused(ApiError):
    """The profile asks for something that may not run; `blocked` lists the first places (contract, section 1)."""

    status, code = 422, "input_sanitized_rejected"
    message = "The profile contains directives that may not run."
    documented = True


class TooManyVariants(ApiError):
    status, code = 422, "too_many_variants"
    message = "The profile has more variants than the plan allows."
    documented = True


class BuildPinNotAllowed(ApiError):
    status, code = 422, "build_pin_not_allowed"
    message = "The account's plan does not allow pinning a build."
    documented = True


class BuildPinUnavailable(ApiError):
    status, code = 422, "build_pin_unavailable"
    message = "The pinned build cannot be used."
    documented = True


class MaxActiveJobsExceeded(ApiError):
    status, code = 429, "max_active_jobs_exceeded"
    message = "The account has as many unfinished jobs as its plan allows."
    headers = {"Retry-After": "10"}


class InternalError(ApiError):
    status, code = 500, "internal_error"
    message = "Something went wrong on our side. Quote the request id if it persists."


def envelope(error: ApiError, request_id: str) -> dict[str, Any]:
    """Return the body that every error has."""
    return {"error": error.message, "code": error.code, "meta": error.meta, "requestId": request_id}


def error_response(error: ApiError, request: HttpRequest) -> JsonResponse:
    """Return the envelope as a response of its own, for answers outside the API's views."""
    body = envelope(error, request.META["REQUEST_ID"])
    return JsonResponse(body, status=error.status, headers=dict(error.headers))
