"""Requests to the service: addresses, keys, repetitions and errors."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from simservice_client._answers import error_of, object_of
from simservice_client._json import Model
from simservice_client._retries import RetryPolicy
from simservice_client._settings import Settings
from simservice_client.errors import ServiceUnreachable, SimserviceError

M = TypeVar("M", bound=Model)
T = TypeVar("T")
CONNECT_SECONDS = 10.0


class AsyncTransport:
    """Sends requests and repeats those that failed for a reason that passes.

    Every request of this library can be repeated: it only reads, changes nothing when it comes twice, or has an
    idempotency key.
    """

    def __init__(self, http: httpx.AsyncClient, *, settings: Settings, policy: RetryPolicy, timeout: float) -> None:
        self._http = http
        self._base = settings.base_url
        self._root = f"{settings.base_url}/v1/{settings.resource}"
        self._headers = settings.headers
        self._policy = policy
        self._timeout = timeout
        self._has_answer = False

    async def call(
        self,
        kind: type[M],
        method: str,
        *path: str,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        answer_seconds: float = 0.0,
    ) -> M:
        """Send a request with the key and return the object of the response. Raises SimserviceError.

        `path` has the parts of the path below the resource.
        `answer_seconds` is the time that the request asks the service to wait.
        """
        request = self._http.build_request(
            method,
            "/".join([self._root, *(quote(part, safe="") for part in path)]),
            params=params,
            json=json,
            headers={**self._headers, **(headers or {})},
            timeout=self._limits(answer_seconds),
        )
        return object_of(kind, await self.repeat(lambda: self._send(request)))

    async def message(
        self, content: bytes, headers: Mapping[str, str], *, repeats: bool, answer_seconds: float
    ) -> httpx.Response:
        """Send a message of the MCP protocol, and return the response. Raises SimserviceError."""
        request = self._http.build_request(
            "POST",
            f"{self._base}/mcp",
            content=content,
            headers={**self._headers, "Content-Type": "application/json", **headers},
            timeout=self._limits(answer_seconds),
        )
        if not repeats:
            return await self._send(request)
        return await self.repeat(lambda: self._send(request))

    async def public(self, url: str, *, accepted: Collection[int] = ()) -> httpx.Response:
        """Return the response at a public address, also one with an accepted status. Sends no key."""
        request = self._http.build_request("GET", url, timeout=self._limits())
        return await self.repeat(lambda: self._send(request, accepted=accepted))

    async def repeat(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the first attempt that succeeds. Raises the error of the last one."""
        failures = 0
        while True:
            try:
                return await attempt()
            except SimserviceError as error:
                failures += 1
                delay = self._policy.delay(failures, error, is_first_contact=not self._has_answer)
                if delay is None:
                    raise
            await asyncio.sleep(delay)

    @asynccontextmanager
    async def stream(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        """Open the response to one request without a key. Raises SimserviceError unless it is a success."""
        try:
            async with self._http.stream("GET", url, headers=headers, timeout=self._limits()) as response:
                self._has_answer = True
                if not response.is_success:
                    await response.aread()
                    raise error_of(response)
                yield response
        except httpx.RequestError as error:
            raise ServiceUnreachable.after(error) from error

    async def _send(self, request: httpx.Request, *, accepted: Collection[int] = ()) -> httpx.Response:
        """Return the response to one attempt. Raises SimserviceError unless it is a success or accepted."""
        try:
            response = await self._http.send(request)
        except httpx.RequestError as error:
            raise ServiceUnreachable.after(error) from error
        self._has_answer = True
        if not response.is_success and response.status_code not in accepted:
            raise error_of(response)
        return response

    def _limits(self, answer_seconds: float = 0.0) -> httpx.Timeout:
        """Return the time limits of one attempt."""
        return httpx.Timeout(self._timeout + answer_seconds, connect=min(self._timeout, CONNECT_SECONDS))
