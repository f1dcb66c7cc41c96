"""The bodies of responses, and errors for all that are not what the API sends."""

from typing import Any, TypeVar

import httpx

from simservice_client._json import Model
from simservice_client._retries import retry_after_of
from simservice_client.error_codes import BY_CODE
from simservice_client.errors import ApiError, UnexpectedResponse

M = TypeVar("M", bound=Model)
SHOWN_CHARACTERS = 80
# What reading a body raises if it is not JSON, not of the expected form, or nested too deeply
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


def object_of(kind: type[M], response: httpx.Response) -> M:
    """Return the object of a successful response. Raises UnexpectedResponse if it is not one."""
    try:
        return kind.from_json(response.json())
    except MALFORMED:
        raise _unexpected(response) from None


def answer_of(response: httpx.Response) -> Any:
    """Return the JSON of a response. Raises UnexpectedResponse if it is not JSON."""
    try:
        return response.json()
    except MALFORMED:
        raise _unexpected(response) from None


def error_of(response: httpx.Response) -> ApiError | UnexpectedResponse:
    """Return the error of a response that is not a success."""
    try:
        body = response.json()
        message, code, meta, request_id = body["error"], body["code"], body["meta"], body["requestId"]
        known = BY_CODE.get(code, ApiError)
    except MALFORMED:
        return _unexpected(response)
    return known(
        str(message),
        status=response.status_code,
        code=str(code),
        meta=meta if isinstance(meta, dict) else None,
        request_id=str(request_id),
        retry_after=retry_after_of(response.headers),
    )


def _unexpected(response: httpx.Response) -> UnexpectedResponse:
    """Return the error of a response that is not from the API."""
    kind = response.headers.get("content-type", "").partition(";")[0] or "no content type"
    start = " ".join(response.text[: 4 * SHOWN_CHARACTERS].split())[:SHOWN_CHARACTERS]
    target = response.headers.get("location")
    hint = f"It redirects to {target!r}." if target else f"It begins: {start!r}."
    return UnexpectedResponse(
        f"{response.request.url} answered {response.status_code} with {kind} instead of the API's JSON: "
        f"check the address. {hint}",
        status=response.status_code,
        retry_after=retry_after_of(response.headers),
    )
