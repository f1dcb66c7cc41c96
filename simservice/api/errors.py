"""Errors of the API, with their codes and messages: `docs/reference/errors.md#codes`."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.http import HttpRequest, JsonResponse

Meta = Mapping[str, Any]


class ApiError(Exception):
    """An error response. `code` is stable; `message` may change."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = {}
    # Whether `meta` carries the address of the error's explanation, as `docsUrl`.
    documented = False
    # What an example for the documentation has in `meta`.
    example: Any = None
    # The keys of `meta` that stand at the top level of the envelope too, where `meta` has them.
    raised_keys: tuple[str, ...] = ()

    def __init__(
        self, meta: Meta | None = None, *, message: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(self.code)
        self.meta = meta
        # The headers of the class, and those of this response.
        self.headers = {**self.headers, **(headers or {})}
        if message is not None:
            self.message = message


class ValidationFailed(ApiError):
    """The request is invalid; `issues` has the path and message of each problem."""

    status, code = 400, "validation_failed"
    message = "The request is invalid. See meta.issues for each problem."
    example = [{"path": "build.channel", "message": "Must be one of: nightly, weekly, latest."}]

    def __init__(self, issues: list[dict[str, str]]) -> None:
        super().__init__({"issues": issues})
        self.issues = issues


class InvalidJson(ApiError):
    status, code = 400, "invalid_json"
    message = "The body is not valid JSON."


class InvalidCursor(ApiError):
    status, code = 400, "invalid_cursor"
    message = "The cursor is invalid for this account. Start again without a cursor."


class Unauthorized(ApiError):
    """The API key is missing or invalid."""

    status = 401
    headers = {"WWW-Authenticate": "Bearer"}


class MissingToken(Unauthorized):
    code = "missing_token"
    message = "Send an API key: Authorization: Bearer <API key>."


class InvalidToken(Unauthorized):
    code = "invalid_token"
    message = "The API key is invalid."


class RevokedToken(Unauthorized):
    code = "revoked_token"
    message = "The API key has been revoked."


class ExpiredToken(Unauthorized):
    code = "expired_token"
    message = "The API key has expired."


class ReadOnlyKey(ApiError):
    status, code = 403, "read_only_key"
    message = "This key can only read: its creator is now a viewer of the account. Use another key."


class InsufficientScope(ApiError):
    """The key's scope does not include the operation; `meta` has both."""

    status, code = 403, "insufficient_scope"
    message = "The request requires a higher scope. Use another key, or change the scope of this one."
    headers = {"WWW-Authenticate": 'Bearer error="insufficient_scope"'}
    example = {"required": "submit", "scope": "read"}

    def __init__(self, meta: Meta) -> None:
        challenge = f'Bearer error="insufficient_scope", scope="{meta["required"]}"'
        super().__init__(
            meta,
            message=f"The request requires the scope {meta['required']}, but the key has {meta['scope']}. "
            "Use another key, or change the scope of this one.",
            headers={"WWW-Authenticate": challenge},
        )


class AddressNotAllowed(ApiError):
    status, code = 403, "address_not_allowed"
    message = "This key is not accepted from this IP address. Use an allowed one, or change the key's list."


class OriginNotAllowed(ApiError):
    status, code = 403, "origin_not_allowed"
    message = "A page on another site sent this request. Send it from a program, without an Origin header."


class NotFound(ApiError):
    status, code = 404, "not_found"
    message = "The resource does not exist or belongs to another account."


class FileMissing(NotFound):
    message = "The file of this artifact is missing from the storage. Submit the job again if you need it."


class MethodNotAllowed(ApiError):
    status, code = 405, "method_not_allowed"
    message = "This URL does not support that method."


class RequestTooLarge(ApiError):
    status, code = 413, "request_too_large"
    message = "The request body is too large."


class ProfileTooLarge(ApiError):
    status, code = 413, "profile_too_large"
    message = "The profile must be at most 2 MB (2,097,152 bytes of UTF-8)."


class RangeNotSatisfiable(ValidationFailed):
    """The requested range of a file starts after its end. The code is that of an invalid request."""

    status = 416

    def __init__(self, *, size: int = 0) -> None:
        super().__init__([{"path": "range", "message": f"Must start before byte {size:,}, the end of the file."}])
        self.headers = {"Content-Range": f"bytes */{size}"}


class UnsupportedMediaType(ApiError):
    status, code = 415, "unsupported_media_type"
    message = "Send Content-Type: application/json."


class CompressedBody(UnsupportedMediaType):
    message = "Compressed bodies are not supported. Send the body without Content-Encoding."


class Unprocessable(ApiError):
    """The request is valid but cannot be processed; `meta.reason` equals the code."""

    status = 422

    def __init__(
        self, meta: Meta | None = None, *, message: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__({**(meta or {}), "reason": self.code}, message=message, headers=headers)


class RateLimitExceeded(ApiError):
    """The caller exceeded a limit; `meta.limit` is `submissions`, `bytes`, `checks`, `checked_bytes`, `reads`,
    `storage` or `public`."""

    status, code = 429, "rate_limit_exceeded"
    message = "Too many requests or too much data. Wait the number of seconds in Retry-After, then try again."
    example = {"scope": "developer", "limit": "submissions"}


class InternalError(ApiError):
    status, code = 500, "internal_error"
    message = "An internal error occurred. If it happens again, contact support with the request ID."


class Unavailable(ApiError):
    """The service cannot take the request now; the same request may succeed later."""

    status = 503
    headers = {"Retry-After": "10"}


class QueueUnavailable(Unavailable):
    code = "queue_unavailable"
    message = "The queue is not accepting jobs at the moment. Try again later."
    example = {"reason": "queue_full", "queueHealth": "full"}


class DatabaseUnavailable(QueueUnavailable):
    message = "The database is not responding. Try again later."

    def __init__(self) -> None:
        super().__init__({"reason": "database_unavailable", "queueHealth": "unavailable"})


class StorageUnavailable(QueueUnavailable):
    message = "Storage is not responding. Try again later."

    def __init__(self) -> None:
        super().__init__({"reason": "storage_unavailable", "queueHealth": "ok"})


class DiskFull(QueueUnavailable):
    message = "The request could not be stored, because a disk of the service is full. Try again later."

    def __init__(self) -> None:
        super().__init__({"reason": "disk_full", "queueHealth": "ok"})


class Busy(QueueUnavailable):
    message = "Too many large files are being sent at the moment. Try again in a few seconds."
    headers = {"Retry-After": "5"}

    def __init__(self) -> None:
        super().__init__({"reason": "busy", "queueHealth": "ok"})


class NotReady(QueueUnavailable):
    """A part of the service that it needs is not available; `meta` has the state of all parts."""

    message = "The service is not ready. Try again later."

    def __init__(self, parts: Meta) -> None:
        super().__init__({"reason": "not_ready", "queueHealth": "unavailable", **parts})


class SecretStoreUnavailable(Unavailable):
    code = "secret_store_unavailable"
    message = "Game credentials cannot be stored at the moment, so the job was not accepted. Try again later."
    example = {"reason": "redis_unavailable"}


class ApiMaintenance(Unavailable):
    code = "api_maintenance"
    message = "The service is down for maintenance."
    example = {"retryAfterSeconds": 600}


def envelope(error: ApiError, request_id: str) -> dict[str, Any]:
    """Return the body that every error has."""
    body = {"error": error.message, "code": error.code, "meta": error.meta, "requestId": request_id}
    raised = {key: error.meta[key] for key in error.raised_keys if error.meta and key in error.meta}
    return body | raised


def error_response(error: ApiError, request: HttpRequest) -> JsonResponse:
    """Return the envelope as a response of its own, for answers outside the API's views."""
    body = envelope(error, request.META["REQUEST_ID"])
    return JsonResponse(body, status=error.status, headers=dict(error.headers))


EXAMPLE_REQUEST_ID = "req_5f0c1d2e3a4b5968778695a4b3c2d1e0"
EXAMPLE_HOST = "https://sim.example.com"


def docs_url(code: str) -> str:
    """Return the URL of the documentation of an error code."""
    return f"{EXAMPLE_HOST}/docs/errors#{code}"


def family(member: type[ApiError] = ApiError) -> Iterator[type[ApiError]]:
    """Yield every error class that has a code, in order of definition."""
    for child in member.__subclasses__():
        if child.__dict__.get("code"):
            yield child
        yield from family(child)


def example_of(error: type[ApiError]) -> ApiError:
    """Return the example of an error, with the message that `meta` repeats, if it does."""
    given = error.example
    if given is None:
        return error()
    return error(given, message=given["message"]) if "message" in given else error(given)


def envelope_of(error: type[ApiError]) -> dict[str, Any]:
    """Return the envelope of the example."""
    return envelope(example_of(error), EXAMPLE_REQUEST_ID)
