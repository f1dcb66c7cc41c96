"""The client of the API."""

from __future__ import annotations

import platform
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from simservice_client._answers import answer_of, object_of
from simservice_client._async.artifacts import AsyncArtifacts
from simservice_client._async.builds import AsyncBuilds
from simservice_client._async.jobs import AsyncJobs
from simservice_client._async.transport import AsyncTransport
from simservice_client._retries import RetryPolicy
from simservice_client._settings import Settings
from simservice_client._version import __version__
from simservice_client.models import Alive, Credits, Manifest, Readiness, Usage

if TYPE_CHECKING:
    from typing_extensions import Self

USER_AGENT = {"User-Agent": f"simservice-client/{__version__} Python/{platform.python_version()}"}
# Each job that is waited for holds a connection.
CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=100)


class AsyncClient:
    """A client of one service with one API key.

    Without arguments, the address and the key come from the environment (`SIMSERVICE_URL`, `SIMSERVICE_API_KEY`),
    or else from `simctl login`.

        async with AsyncClient() as client:
            result = await client.jobs.run(Path("mage.simc").read_text())
            print(result.main_actor.name, result.mean)
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        resource: str | None = None,
        timeout: float = 30.0,
        retries: int = 6,
        longest_wait: float = 120.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """Prepare a client. Raises NotConfigured without an address or a key.

        `base_url` can be that of the API too: `https://…/v1/sim`. `resource` is the second part of its paths, if
        the address does not say it and the operator has chosen another than `sim`. `timeout` is the time limit of
        one attempt in seconds. A request that fails for a reason that passes is repeated up to `retries` times, but
        not if the service asks to wait for more than `longest_wait` seconds. `http` is a client of your own, for
        example with a proxy; you close it yourself.
        """
        settings = Settings.find(base_url=base_url, api_key=api_key, resource=resource)
        self._owns_http = http is None
        self._http = http or httpx.AsyncClient(limits=CONNECTIONS, headers=USER_AGENT)
        self._transport = AsyncTransport(
            self._http,
            settings=settings,
            policy=RetryPolicy(retries=retries, longest_wait=longest_wait),
            timeout=timeout,
        )
        self.base_url = settings.base_url
        self.builds = AsyncBuilds(self._transport)
        self.artifacts = AsyncArtifacts(self._transport)
        self.jobs = AsyncJobs(self._transport, self.artifacts)

    async def usage(self) -> Usage:
        """Return this month's usage, the unfinished jobs, and the plan's limits."""
        return await self._transport.call(Usage, "GET", "usage")

    async def credits(self) -> Credits:
        """Return the credits of the account."""
        return await self._transport.call(Credits, "GET", "credits")

    async def mcp(
        self, message: bytes, *, version: str | None = None, repeats: bool = True, answer_seconds: float = 0.0
    ) -> bytes:
        """Send a JSON-RPC message to the MCP server and return the answer, empty if the message needs none.

        `version` is the protocol version. Set `repeats` to False for a message that runs a job without an
        idempotency key. `answer_seconds` is how long the message asks the service to wait.
        """
        headers = {"Accept": "application/json, text/event-stream"}
        if version:
            headers["MCP-Protocol-Version"] = version
        return (
            await self._transport.message(message, headers, repeats=repeats, answer_seconds=answer_seconds)
        ).content

    async def manifest(self, url: str) -> Manifest:
        """Return the result of a job from its public address, `links.manifest`. Sends no key."""
        return object_of(Manifest, await self._transport.public(url))

    async def report_data(self, share: str) -> dict[str, Any]:
        """Return the simulator's report of an ended job from its share link, `links.share`. Sends no key.

        Its block `simbot` describes the report.
        """
        document: dict[str, Any] = answer_of(await self._transport.public(f"{share}/data.json"))
        return document

    async def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document of the service."""
        document: dict[str, Any] = answer_of(await self._transport.public(f"{self.base_url}/v1/openapi.json"))
        return document

    async def alive(self) -> Alive:
        """Return that the web server answers. Raises ServiceUnreachable if it does not."""
        return object_of(Alive, await self._transport.public(f"{self.base_url}/healthz"))

    async def readiness(self) -> Readiness:
        """Return whether each part of the service works, also if one does not."""
        response = await self._transport.public(f"{self.base_url}/readyz", accepted={503})
        return object_of(Readiness, response)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
