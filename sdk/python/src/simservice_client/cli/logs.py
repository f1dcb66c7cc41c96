"""`simctl logs`: the output of the simulator, while a job runs and afterwards.

`--follow` usually ends with Ctrl-C, so the client is the asynchronous one, as in `run`.
"""

import asyncio
import tempfile
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from simservice_client import AsyncClient
from simservice_client._async.jobs import TERMINAL
from simservice_client._pace import Pace
from simservice_client.cli.console import Console
from simservice_client.cli.exits import Exit
from simservice_client.cli.formats import state
from simservice_client.models import JobStatus, LogEntry

KINDS = {"stdout_log": "stdout", "stderr_log": "stderr"}
# New lines do not end the wait for a change of the status.
FOLLOW_SECONDS = 2


def logs(arguments: Namespace, console: Console) -> int:
    """Print the last lines of a running job, or the whole log of one that has ended."""
    asyncio.run(_logs(AsyncClient(arguments.url), arguments, console))
    return Exit.COMPLETED


async def _logs(client: AsyncClient, arguments: Namespace, console: Console) -> None:
    async with client:
        status = await client.jobs.status(arguments.job, log_entries=True)
        if status.status in TERMINAL:
            entries = _stored(client, arguments.job)
        elif arguments.follow:
            entries = _followed(client, console, status)
        else:
            entries = _known(status)
            if status.log_entries is None:
                console.complain(f"job {arguments.job} is {state(status.status)}: there is no output yet.")
        await _print(console, entries, is_followed=arguments.follow)


async def _print(console: Console, entries: AsyncIterator[dict[str, Any]], *, is_followed: bool) -> None:
    """Print lines as they come, or one JSON document of them."""
    if console.as_json and not is_followed:
        console.document([entry async for entry in entries])
        return
    async for entry in entries:
        if console.as_json:
            console.event(entry)
        else:
            console.log(entry["message"])


async def _known(status: JobStatus) -> AsyncIterator[dict[str, Any]]:
    """Yield the last lines."""
    for entry in status.log_entries or []:
        yield entry.to_json()


async def _followed(client: AsyncClient, console: Console, status: JobStatus) -> AsyncIterator[dict[str, Any]]:
    """Yield each line once, until the job has ended."""
    seen: list[LogEntry] = []
    pace = Pace()
    while True:
        entries = status.log_entries or []
        for entry in new_entries(seen, entries):
            yield entry.to_json()
        seen = entries or seen
        if status.status in TERMINAL:
            break
        await asyncio.sleep(pace.delay())
        status = await client.jobs.status(status.id, wait=FOLLOW_SECONDS, log_entries=True)
    console.complain(f"job {status.id} {state(status.status)}. For its whole output: simctl logs {status.id}")


def new_entries(seen: Sequence[LogEntry], entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
    """Return the entries that were not among the last ones: those after the longest common part."""
    for start in range(len(seen)):
        common = len(seen) - start
        if list(seen[start:]) == list(entries[:common]):
            return entries[common:]
    return entries


async def _stored(client: AsyncClient, job_id: str) -> AsyncIterator[dict[str, Any]]:
    """Yield the lines of the logs of a job that has ended."""
    artifacts = [each for each in (await client.jobs.results(job_id)).result.artifacts if each.kind in KINDS]
    with tempfile.TemporaryDirectory() as folder:
        for artifact in artifacts:
            path = await client.artifacts.download(artifact, Path(folder) / "log")
            with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
                for line in lines:
                    yield {"source": KINDS[artifact.kind], "name": artifact.name, "message": line.rstrip("\r\n")}
