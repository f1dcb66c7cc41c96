"""HTTP client of webhooks: one POST request to a checked address, within one deadline.

It resolves the host name once, connects to an address that it checked, follows no redirects and uses no proxies. An
idle connection is used again only if it goes to one of the addresses that were just checked.
"""

import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial

from requests import RequestException
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import ClosedPoolError, DecodeError, HTTPError, NewConnectionError, ProtocolError, SSLError

from simservice.network import addresses
from simservice.network.addresses import AddressRefused, NotResolved, resolve
from webhooks import labels
from webhooks.connection_pool import ConnectionPool, Exchange, InvalidResponse, ServerSession, exchange
from webhooks.models import Delivery

# For the whole request: name resolution, connection, TLS, headers and body (`docs/reference/limits.md#limits`).
TIMEOUT_SECONDS = 10.0
MAX_BODY_BYTES = 64 * 1024
FINAL_STATUS = 200

Problem = Delivery.Problem
# The errors whose message is a sentence for the delivery log.
PROBLEMS: dict[type[BaseException], Problem] = {
    AddressRefused: Problem.ADDRESS,
    NotResolved: Problem.DNS,
    InvalidResponse: Problem.PROTOCOL,
}


@dataclass(kw_only=True)
class Response:
    """A receiver's response, or the problem that prevented a complete one."""

    duration_ms: int = 0
    # What the request was signed with
    signature: str = ""
    address: str = ""
    status: int | None = None
    retry_after: str = ""
    location: str = ""
    body: bytes = b""
    problem: str = ""
    detail: str = ""


def post(
    url: str, headers: Mapping[str, str], body: bytes, *, client_id: int, connections: ConnectionPool
) -> Response:
    """Post a body to a URL of a client and return the response. Raises nothing that a receiver could cause."""
    started, response = time.monotonic(), Response()
    current = Exchange(deadline=started + TIMEOUT_SECONDS)
    exchange.set(current)
    try:
        target = addresses.parse(url)
        current.addresses = resolve(target, seconds=TIMEOUT_SECONDS)
        headers = {"Host": target.authority, **headers, "Accept-Encoding": "identity"}
        # This closes the connection too, unless the whole response was read.
        with closing(
            _send(partial(connections.of, client_id, target.host, target.port), url, headers, body)
        ) as source:
            _read(source, response)
        response.detail = labels.redirect_detail(response.status, url, response.location)
    except (AddressRefused, NotResolved, InvalidResponse, HTTPError, RequestException) as error:
        response.problem, response.detail = _explain(error)
    response.address = current.address
    response.duration_ms = round((time.monotonic() - started) * 1000)
    return response


def _send(
    session: Callable[[], ServerSession], url: str, headers: Mapping[str, str], body: bytes
) -> BaseHTTPResponse:
    """Send the request; return the response with its body unread. Raises RequestException or HTTPError.

    Servers close idle connections at any time. If a server does so before it responds, the request is sent again
    over a new connection. The server may have processed it already, so events can arrive twice.
    """
    current = exchange.get()

    def send() -> BaseHTTPResponse:
        return session().post(url, body, headers=headers, stream=True).raw

    try:
        return send()
    except RequestException as error:
        cause = _cause_of(error)
        was_closed = isinstance(cause, (ConnectionError, ssl.SSLEOFError))
        is_stale = was_closed and not current.needs_new and not current.received
        if not is_stale and not isinstance(cause, ClosedPoolError):
            raise
    current.needs_new = True
    return send()


def _read(source: BaseHTTPResponse, response: Response) -> None:
    """Read the status and the beginning of the body. A body that breaks off keeps its status.

    Raises InvalidResponse or ReadTimeoutError.
    """
    if source.status < FINAL_STATUS:
        raise InvalidResponse(f"The response's status, {source.status}, is not final.")
    response.status = source.status
    response.retry_after = source.headers.get("Retry-After", "")
    response.location = source.headers.get("Location", "")
    encoding, has_length = source.headers.get("Transfer-Encoding"), "Content-Length" in source.headers
    # urllib3 would guess the end of some bodies, and wait for the chunks of a response such as 204, which has none.
    is_clear = not encoding or (encoding.lower() == "chunked" and not has_length and source.length_remaining != 0)
    # A negative chunk size is a ValueError.
    with suppress(ProtocolError, SSLError, DecodeError, ValueError):
        response.body = source.read(MAX_BODY_BYTES, decode_content=False) if is_clear else b""


def _explain(error: Exception) -> tuple[Problem, str]:
    cause = _cause_of(error)
    if type(cause) in PROBLEMS:
        return PROBLEMS[type(cause)], str(cause)
    if isinstance(cause, TimeoutError):
        return Problem.TIMEOUT, f"The response was not complete within {TIMEOUT_SECONDS:g} seconds."
    reason = getattr(cause, "verify_message", "") or getattr(cause, "strerror", "") or type(cause).__name__
    reason = reason.rstrip(".")
    if isinstance(cause, ssl.SSLError):
        return Problem.TLS, labels.tls_advice(getattr(cause, "verify_code", None), reason)
    if isinstance(cause, OSError):
        begin = "Could not connect" if isinstance(error, NewConnectionError) else "The connection broke"
        return Problem.CONNECTION, f"{begin}: {reason}."
    return Problem.PROTOCOL, f"The response is not valid HTTP: {reason}."


def _cause_of(error: BaseException) -> BaseException:
    """Return the original error, which urllib3 and `requests` were handling when they raised theirs."""
    while isinstance(error, (RequestException, HTTPError)) and error.__context__:
        error = error.__context__
    return error
