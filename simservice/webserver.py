"""The web server's worker: gunicorn's threaded one, answering in the contract's words what gunicorn itself refuses.

Such a request never reaches Django: its line, its headers or the framing of its body are broken, and whoever sent
it may have named no address. So there is one form of answer, whatever the address (contract, section 1).
"""

import json
from contextlib import suppress
from typing import Any

from gunicorn.http.errors import LimitRequestHeaders, LimitRequestLine, ParseException
from gunicorn.util import write_nonblock
from gunicorn.workers.gthread import ThreadWorker

from simservice.api.errors import ApiError, InternalError, RequestTooLarge, ValidationFailed, envelope
from simservice.api.middleware import new_request_id

HEAD = """\
HTTP/1.1 {status} {reason}\r
Connection: close\r
Content-Type: application/json\r
Content-Length: {length}\r
X-Request-Id: {request_id}\r
\r
"""
REASONS = {400: "Bad Request", 413: "Content Too Large", 500: "Internal Server Error"}


class Worker(ThreadWorker):
    """What the Procfile names as gunicorn's worker class."""

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:  # noqa: ARG002
        """Answer a request that failed outside Django, and log it: a bug with its trace, a refusal in one line."""
        request_id = new_request_id()
        error = refusal(exc)
        if error.status == InternalError.status:
            self.log.error("request %s failed outside Django", request_id, exc_info=exc)
        else:
            self.log.info("request %s refused: %s", request_id, exc)
        with suppress(OSError):
            write_nonblock(client, answer(error, request_id))


def refusal(exc: Exception) -> ApiError:
    """Return the error that stands for what gunicorn raised."""
    if isinstance(exc, LimitRequestLine | LimitRequestHeaders):
        return RequestTooLarge(message="The request's line or headers are too long or too many.")
    if isinstance(exc, ParseException):
        return ValidationFailed([{"path": "", "message": "The request is not valid HTTP/1.1."}])
    return InternalError()


def answer(error: ApiError, request_id: str) -> bytes:
    """Return a whole HTTP response that carries the envelope and ends the connection."""
    body = json.dumps(envelope(error, request_id)).encode()
    head = HEAD.format(status=error.status, reason=REASONS[error.status], length=len(body), request_id=request_id)
    return head.encode() + body
