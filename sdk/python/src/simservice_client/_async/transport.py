"""Requests to the API: addresses, keys, repetitions and errors."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx

from simservice_client._answers import answer_of
from simservice_client._retries import REPEATED_STATUSES, RetryPolicy, retry_after_of
from simservice_client.errors import ServiceUnreachable


class AsyncTransport:
    """Sends requests and repeats those that failed for a reason that passes."""

    def __init__(self, http: httpx.AsyncClient, *, root: str, policy: RetryPolicy) -> None:
        self.http = http
        self.root = root
        self.policy = policy

    async def json(self, method: str, path: str, **options: Any) -> Any:
        """Return the body of a successful response. Raises SimserviceError."""
        return answer_of(await self.send(method, self.root + path, **options))

    async def send(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> httpx.Response:
        """Return the last response of all attempts. Raises ServiceUnreachable if there was none.

        Every request of this library can be repeated: it only reads, changes nothing when it comes twice, or has an
        idempotency key.
        """
        request = self.http.build_request(
            method, url, params=params, json=json, headers=headers, timeout=self.timeout(timeout)
        )
        failures = 0
        while True:
            response, problem = await self.attempt(request)
            if response is not None and response.status_code not in REPEATED_STATUSES:
                return response
            failures += 1
            retry_after = None if response is None else retry_after_of(response.headers)
            delay = self.policy.delay(failures, retry_after=retry_after)
            if delay is None:
                if response is None:
                    raise ServiceUnreachable(f"{request.url.host} does not answer: {problem}") from problem
                return response
            await asyncio.sleep(delay)

    async def attempt(self, request: httpx.Request) -> tuple[httpx.Response | None, httpx.TransportError | None]:
        """Return the response to one attempt, or the reason why there is none."""
        try:
            return await self.http.send(request), None
        except httpx.TransportError as error:
            return None, error

    def timeout(self, seconds: float | None) -> Any:
        """Return the time limit of a request: the client's own, or another one for the answer."""
        return httpx.USE_CLIENT_DEFAULT if seconds is None else httpx.Timeout(seconds, connect=10.0)
