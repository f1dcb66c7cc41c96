"""Limits on files and other large public responses: each occupies a thread while its client reads it.

A bucket cannot send artifacts instead: they are stored compressed, but ranges and entity tags apply to their
uncompressed content, and HTML reports must be isolated.
"""

import errno
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from simservice.api.addresses import client_address, network_of
from simservice.api.errors import Busy
from simservice.telemetry.metrics import REJECTED
from simservice.web.error_pages import render_error

LARGE_BYTES = 64 << 10
# The lowest rate at which a client can occupy a thread for longer than GRACE_SECONDS.
BYTES_PER_SECOND = 32 << 10
GRACE_SECONDS = 30.0


class LargeResponsesMiddleware:
    """Sends at most `MAX_LARGE_RESPONSES` large responses at once, three quarters of them to one address.

    Replaces further ones with a 503. Disconnects a client that reads too slowly.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self._lock = threading.Lock()
        # The number of large responses that are being sent, by address
        self._sent: Counter[str] = Counter()

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if request.method == "HEAD" or not _is_large(response):
            return response
        address = client_address(request)
        network = network_of(address) if address else ""
        if not self._begin(network):
            REJECTED.labels("too_many_downloads").inc()
            refusal = render_error(request, Busy())
            refusal._resource_closers.extend(response._resource_closers)  # type: ignore[attr-defined]  # noqa: SLF001
            return refusal
        # Called when the response has been sent or its client has left.
        response._resource_closers.append(lambda: self._end(network))  # type: ignore[attr-defined]  # noqa: SLF001
        if isinstance(response, StreamingHttpResponse):
            response.streaming_content = _in_time(cast(Iterator[bytes], response.streaming_content))
        return response

    def _begin(self, network: str) -> bool:
        most = settings.MAX_LARGE_RESPONSES
        with self._lock:
            if self._sent.total() >= most or self._sent[network] >= max(1, most * 3 // 4):
                return False
            self._sent[network] += 1
            return True

    def _end(self, network: str) -> None:
        with self._lock:
            self._sent[network] -= 1
            if not self._sent[network]:
                del self._sent[network]


def _is_large(response: HttpResponseBase) -> bool:
    """Return whether a response is a large file or public document. A file of unknown length is large."""
    if isinstance(response, StreamingHttpResponse):
        return int(response.headers.get("Content-Length", LARGE_BYTES + 1)) > LARGE_BYTES
    is_public = "public" in response.headers.get("Cache-Control", "")
    return is_public and len(getattr(response, "content", b"")) > LARGE_BYTES


def _in_time(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield all chunks. Raises ConnectionResetError, which ends the connection, if the client reads too slowly."""
    started, sent = time.monotonic(), 0
    for chunk in chunks:
        yield chunk
        sent += len(chunk)
        if time.monotonic() - started > GRACE_SECONDS + sent / BYTES_PER_SECOND:
            raise ConnectionResetError(errno.ECONNRESET, "the client reads too slowly")
