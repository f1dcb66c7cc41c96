"""The bodies of responses, and errors for all that are not what the API sends."""

from typing import Any

import httpx

from simservice_client._retries import retry_after_of
from simservice_client.error_codes import BY_CODE
from simservice_client.errors import ApiError, UnexpectedResponse

SHOWN_CHARACTERS = 80


def answer_of(response: httpx.Response) -> Any:
    """Return the JSON of a successful response. Raises ApiError or UnexpectedResponse."""
    if not response.is_success:
        raise error_of(response)
    try:
        return response.json()
    except ValueError:
        raise _unexpected(response) from None


def error_of(response: httpx.Response) -> ApiError | UnexpectedResponse:
    """Return the error of a response that failed."""
    try:
        body = response.json()
        message, code, meta, request_id = body["error"], body["code"], body["meta"], body["requestId"]
    except (ValueError, KeyError, TypeError):
        return _unexpected(response)
    return BY_CODE.get(code, ApiError)(
        message,
        status=response.status_code,
        code=code,
        meta=meta,
        request_id=request_id,
        retry_after=retry_after_of(response.headers),
    )


def _unexpected(response: httpx.Response) -> UnexpectedResponse:
    """Return the error of a response that is not from the API."""
    kind = response.headers.get("content-type", "no content type").partition(";")[0]
    start = " ".join(response.text[: 4 * SHOWN_CHARACTERS].split())[:SHOWN_CHARACTERS]
    return UnexpectedResponse(
        f"{response.request.url} answered {response.status_code} with {kind} instead of the API's JSON. "
        f"Check the address. It begins: {start}"
    )
