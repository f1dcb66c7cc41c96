"""Files that jobs produced: `client.artifacts`."""

import asyncio
from pathlib import Path
from typing import Protocol

from simservice_client._async.transport import AsyncTransport
from simservice_client._files import PartFile
from simservice_client._pace import Pace
from simservice_client.errors import ServiceUnreachable
from simservice_client.models import ArtifactUrl


class Downloadable(Protocol):
    """An artifact of a result or of a manifest."""

    @property
    def url(self) -> str: ...

    @property
    def bytes(self) -> int: ...


class AsyncArtifacts:
    """Downloads files."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def url(self, artifact_id: str) -> str:
        """Return a download URL of an artifact, which needs no key."""
        return (await self._transport.call(ArtifactUrl, "GET", "artifacts", artifact_id, "url")).url

    async def download(self, artifact: Downloadable, path: Path) -> Path:
        """Download an artifact to a path, which may exist, and return it. Raises DownloadFailed or ApiError.

        An interrupted download goes on where it stopped. The file appears when it is complete and its content is
        what the service announced.
        """
        pace = Pace()
        with PartFile(path, size=artifact.bytes) as part:
            while not part.is_complete:
                await asyncio.sleep(pace.delay())
                await self._transport.repeat(lambda: self._fetch_rest(artifact.url, part))
            return part.finish()

    async def _fetch_rest(self, url: str, part: PartFile) -> None:
        """Write the missing bytes. Raises SimserviceError if not one of them came."""
        before = part.written
        try:
            async with self._transport.stream(url, part.headers) as response:
                part.begin(response)
                async for chunk in response.aiter_bytes():
                    part.write(chunk)
        except ServiceUnreachable:
            if part.written <= before:
                raise
        else:
            if part.written <= before:
                raise ServiceUnreachable("The download ended before its first byte.", was_connected=True)
