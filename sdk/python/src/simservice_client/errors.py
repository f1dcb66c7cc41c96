"""What can go wrong. All errors are SimserviceErrors; those of the API are ApiErrors with a class for each code."""

from collections.abc import Mapping
from typing import Any


class SimserviceError(Exception):
    """Base of all errors of this library. The message is one line that can be shown to a user."""


class NotConfigured(SimserviceError):
    """The client has no address or no API key."""


class ServiceUnreachable(SimserviceError):
    """The service did not answer: no connection, or no answer in time. The request may have been carried out."""


class UnexpectedResponse(SimserviceError):
    """The answer is not from the API: a wrong address, or a proxy in between."""


class DownloadFailed(SimserviceError):
    """A file could not be downloaded completely, or is not what the service announced."""


class JobNotCompleted(SimserviceError):
    """A job ended without completing. `status`, `error_code` and `reason` say why."""

    def __init__(self, job_id: str, *, status: str, error_code: str | None, reason: str | None) -> None:
        super().__init__(f"Job {job_id} {status.replace('_', ' ')}: {reason or error_code or 'no reason given'}")
        self.job_id, self.status, self.error_code, self.reason = job_id, status, error_code, reason


class WaitTimedOut(SimserviceError):
    """A job did not end within the time that `wait` was given. The job goes on."""


class InvalidSignature(SimserviceError):
    """A webhook request is not from the service, or too old."""


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
