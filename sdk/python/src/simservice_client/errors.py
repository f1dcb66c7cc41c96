"""What can go wrong. All errors are SimserviceErrors; those of the API are ApiErrors with a class for each code."""

from collections.abc import Mapping
from typing import Any

import httpx

# Responses that may be different soon: a limit, or a part of the service that is away
PASSING_STATUSES = frozenset({408, 429, 500, 502, 503, 504})


class SimserviceError(Exception):
    """Base of all errors of this library. The message is one line that can be shown to a user."""

    may_pass = False
    """Whether the same request can succeed later."""
    retry_after: float | None = None
    """Seconds after which the service wants to be asked again."""


class NotConfigured(SimserviceError):
    """The client has no address or no API key."""


class ServiceUnreachable(SimserviceError):
    """The service did not answer: no connection, or no answer in time. The request may have been carried out."""

    may_pass = True

    def __init__(self, message: str, *, was_connected: bool) -> None:
        super().__init__(message)
        self.was_connected = was_connected

    @classmethod
    def after(cls, error: httpx.RequestError) -> "ServiceUnreachable":
        """Return the error after a failed attempt."""
        url = error.request.url
        address = f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"
        was_connected = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol))
        problem = "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error)
        return cls(f"{address} does not answer: {problem or type(error).__name__}", was_connected=was_connected)


class UnexpectedResponse(SimserviceError):
    """The answer is not from the API: a wrong address, or a proxy in between."""

    def __init__(self, message: str, *, status: int, retry_after: float | None) -> None:
        super().__init__(message)
        self.status, self.retry_after, self.may_pass = status, retry_after, status in PASSING_STATUSES


class DownloadFailed(SimserviceError):
    """A file could not be written, or is not what the service announced."""


class JobNotCompleted(SimserviceError):
    """A job ended without completing. `status`, `error_code` and `reason` say why."""

    def __init__(self, job_id: str, *, status: str, error_code: str | None, reason: str | None) -> None:
        super().__init__(f"Job {job_id} {status.replace('_', ' ')}: {reason or error_code or 'no reason given'}")
        self.job_id, self.status, self.error_code, self.reason = job_id, status, error_code, reason


class NoFigures(SimserviceError):
    """A result has no main actor: the simulator wrote no report, or the profile has several actors."""


class WaitTimedOut(SimserviceError):
    """A job did not end within the time that `wait` was given. The job goes on."""


class InvalidSignature(SimserviceError):
    """A webhook request is not from the service, or too old."""


class UnknownEvent(SimserviceError):
    """A webhook request from the service with an event of a later version: acknowledge and ignore it."""


class ApiError(SimserviceError):
    """An error response of the API. `code` is stable; `meta` has details, `request_id` is for the operator."""

    code = ""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        meta: Mapping[str, Any] | None,
        request_id: str,
        retry_after: float | None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.meta = message, status, dict(meta or {})
        self.code, self.request_id, self.retry_after = code, request_id, retry_after
        self.may_pass = status in PASSING_STATUSES
