"""Builds of the simulator: `client.builds`."""

from collections.abc import Sequence

from simservice_client._async.transport import AsyncTransport
from simservice_client.models import Build, BuildList, ChannelBuild


class AsyncBuilds:
    """Reads which builds there are."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self) -> Sequence[ChannelBuild]:
        """Return the current build of each channel on each branch."""
        return (await self._transport.call(BuildList, "GET", "builds")).builds

    async def get(self, build_id: str) -> Build:
        """Return a build, also one that is no longer current."""
        return await self._transport.call(Build, "GET", "builds", build_id)
