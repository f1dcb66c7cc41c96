"""The client of the API."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import httpx

from simservice_client._async.artifacts import AsyncArtifacts
from simservice_client._async.builds import AsyncBuilds
from simservice_client._async.jobs import AsyncJobs
from simservice_client._async.transport import AsyncTransport
from simservice_client._retries import RetryPolicy
from simservice_client._settings import Settings
from simservice_client.models import Credits, Manifest, Readiness, Usage


class AsyncClient:
    """A client of one service with one API key.

    Without arguments, the address and the key come from the environment (`SIMSERVICE_URL`, `SIMSERVICE_API_KEY`), or
    else from `simctl login`. `resource` is the second part of the paths, `sim` unless the service has chosen another.

        async with AsyncClient() as client:
            result = await client.jobs.run(Path("mage.simc").read_text())
            print(result.result.summary.main_actor.mean)
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        resource: str = "sim",
        timeout: float = 30.0,
        retries: int = 5,
        longest_wait: float = 120.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """Prepare a client. Raises NotConfigured without an address or a key.

        `timeout` is the time limit of one attempt in seconds. A request that fails for a reason that passes is
        repeated up to `retries` times, unless the service asks to wait for more than `longest_wait` seconds.
        """
        settings = Settings.find(base_url=base_url, api_key=api_key)
        self.base_url = settings.base_url
        self._owns_http = http is None
        self._http = http or httpx.AsyncClient(timeout=timeout, limits=httpx.Limits(max_connections=100))
        self._http.headers.update(settings.headers)
        policy = RetryPolicy(retries=retries, longest_wait=longest_wait)
        self._transport = AsyncTransport(self._http, root=f"{self.base_url}/v1/{resource}", policy=policy)
        self.jobs = AsyncJobs(self._transport)
        self.builds = AsyncBuilds(self._transport)
        self.artifacts = AsyncArtifacts(self._transport)

    async def usage(self) -> Usage:
        """Return this month's usage, the unfinished jobs, and the plan's limits."""
        return Usage.from_json(await self._transport.json("GET", "/usage"))

    async def credits(self) -> Credits:
        """Return the credits of the account."""
        return Credits.from_json(await self._transport.json("GET", "/credits"))

    async def manifest(self, url: str) -> Manifest:
        """Return the result of a job from its public link, `links.manifest`. Sends no key."""
        return Manifest.from_json(await self._transport.public_json(url))

    async def openapi(self) -> Mapping[str, Any]:
        """Return the OpenAPI document of the service."""
        document: Mapping[str, Any] = await self._transport.public_json(f"{self.base_url}/v1/openapi.json")
        return document

    async def is_alive(self) -> bool:
        """Return whether the web server answers."""
        answer = await self._transport.public_json(f"{self.base_url}/healthz")
        return bool(answer["status"] == "ok")

    async def readiness(self) -> Readiness:
        """Return whether each part of the service works."""
        return Readiness.from_json(await self._transport.public_json(f"{self.base_url}/readyz", accepted={503}))

    async def aclose(self) -> None:
        """Close all connections."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
