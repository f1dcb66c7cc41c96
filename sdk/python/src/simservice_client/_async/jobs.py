"""Jobs: `client.jobs`."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simservice_client._async.artifacts import AsyncArtifacts
from simservice_client._async.transport import AsyncTransport
from simservice_client._files import safe_name
from simservice_client._pace import Pace
from simservice_client._queries import Filters, list_query
from simservice_client._results import Cancellation
from simservice_client.errors import JobNotCompleted, WaitTimedOut
from simservice_client.models import (
    BatchEntry,
    BatchResult,
    Job,
    JobList,
    JobResult,
    JobStatus,
    ListedJob,
    Paused,
    Profile,
    ReplacedLinks,
    Resumed,
    Submitted,
    Validation,
)
from simservice_client.submissions import Options, submission

if TYPE_CHECKING:
    from typing_extensions import Unpack

TERMINAL = frozenset({"completed", "failed", "cancelled", "timed_out"})
# The longest wait that the service allows
WAIT_SECONDS = 25
# Long jobs change often and need fewer answers: a pause of a tenth of the time so far
PAUSE_SHARE, LONGEST_PAUSE_SECONDS = 0.1, 2.0
ArtifactKind = Literal["json_report", "html_report", "csv_report", "input", "stdout_log", "stderr_log"]


class AsyncJobs:
    """Submits jobs and follows them until their results are there."""

    def __init__(self, transport: AsyncTransport, artifacts: AsyncArtifacts) -> None:
        self._transport = transport
        self._artifacts = artifacts

    async def submit(
        self, profile: str, *, idempotency_key: str | None = None, **options: Unpack[Options]
    ) -> Submitted:
        """Submit a profile and return the accepted job. Raises ApiError if it is refused.

        Without a key of your own, each call is one job, however often its request must be repeated. With a key, the
        same submission can be made by several processes or after a crash, and is one job.

            job = await client.jobs.submit(text, priority="high", metadata={"guild": "7"})
            print(job.id, job.links.share)
        """
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        return await self._transport.call(
            Submitted, "POST", "jobs", json=submission(profile, **options), headers=headers
        )

    async def submit_batch(
        self, submissions: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> Sequence[BatchEntry]:
        """Submit up to 100 jobs at once, and return a job or a refusal for each, in the same order.

        With a key of your own, call it again to submit those that were refused: accepted ones stay one job.

            batch = [submission(text, priority="background") for text in profiles]
            for entry in await client.jobs.submit_batch(batch, idempotency_key="night-2026-11-23"):
                print(entry.job.id if entry.job else entry.refusal)
        """
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        body = {"jobs": [dict(each) for each in submissions]}
        return (await self._transport.call(BatchResult, "POST", "jobs", "batch", json=body, headers=headers)).jobs

    async def run(
        self,
        profile: str,
        *,
        timeout: float | None = None,
        on_status: Callable[[JobStatus], object] | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[Options],
    ) -> JobResult:
        """Submit a profile, wait, and return the result. Raises JobNotCompleted, WaitTimedOut or ApiError.

        result = await client.jobs.run(Path("mage.simc").read_text())
        print(result.main_actor.name, result.mean)
        """
        job = await self.submit(profile, idempotency_key=idempotency_key, **options)
        status = await self.wait(job.id, timeout=timeout, on_status=on_status)
        if status.status != "completed":
            raise JobNotCompleted(
                job.id, status=status.status, error_code=status.error_code, reason=status.status_reason
            )
        return await self.results(job.id)

    async def wait(
        self,
        job_id: str,
        *,
        timeout: float | None = None,
        on_status: Callable[[JobStatus], object] | None = None,
        preview: bool = False,
    ) -> JobStatus:
        """Return the status of a job once it has ended, however it ended.

        Raises WaitTimedOut after `timeout` seconds. `on_status` is called with each status on the way, which
        contains the best results so far if `preview` is true.
        """
        started, pace = time.monotonic(), Pace()
        while True:
            await asyncio.sleep(pace.delay())
            remaining = None if timeout is None else timeout - (time.monotonic() - started)
            status = await self.status(job_id, wait=_wait_seconds(remaining), preview=preview)
            if on_status is not None:
                on_status(status)
            if status.status in TERMINAL:
                return status
            elapsed = time.monotonic() - started
            if timeout is not None and elapsed >= timeout:
                raise WaitTimedOut(f"Job {job_id} is {status.status} after {timeout:g} s. It goes on.")
            await asyncio.sleep(min(elapsed * PAUSE_SHARE, LONGEST_PAUSE_SECONDS))

    async def status(
        self, job_id: str, *, wait: int = 0, preview: bool = False, log_entries: bool = False
    ) -> JobStatus:
        """Return the status of a job, at most `wait` seconds later, as soon as it changes.

        `preview` adds the best results so far, `log_entries` the last lines of the simulator's output: one of both.
        """
        include = {"include": "preview"} if preview else {"include": "logEntries"} if log_entries else {}
        params = {**include, **({"wait": wait} if wait else {})}
        return await self._transport.call(
            JobStatus, "GET", "jobs", job_id, "status", params=params, answer_seconds=wait
        )

    async def get(self, job_id: str) -> Job:
        """Return a job without its result."""
        return await self._transport.call(Job, "GET", "jobs", job_id)

    async def results(self, job_id: str, *, details: bool = False) -> JobResult:
        """Return a job with its result. Raises ResultNotReady, or ResultUnavailable if it ended without a run.

        `details` adds abilities, buffs, resources, stats, gear, stat weights and plots of each actor.
        """
        params = {"include": "details"} if details else {}
        return await self._transport.call(JobResult, "GET", "jobs", job_id, "result", params=params)

    async def profile(self, job_id: str) -> str:
        """Return the text that was submitted."""
        return (await self._transport.call(Profile, "GET", "jobs", job_id, "profile")).text

    async def cancel(self, job_id: str) -> Cancellation:
        """Cancel a job, or ask a running one to stop. Raises JobNotCancellable if it ended in another way."""
        return await self._transport.call(Cancellation, "POST", "jobs", job_id, "cancel")

    async def pause(self, job_id: str) -> Paused:
        """Pause a job, or ask the worker of a running one to return it. Raises JobNotPausable if it has ended."""
        return await self._transport.call(Paused, "POST", "jobs", job_id, "pause")

    async def resume(self, job_id: str) -> Resumed:
        """Let a paused job start. Raises JobNotPausable if it has ended, or InsufficientCreditsLiability."""
        return await self._transport.call(Resumed, "POST", "jobs", job_id, "resume")

    async def replace_links(self, job_id: str) -> ReplacedLinks:
        """Replace the share link, the manifest and the download URLs of a job; those known so far stop working."""
        return await self._transport.call(ReplacedLinks, "POST", "jobs", job_id, "replace-links")

    async def list(self, *, page_size: int = 100, **filters: Unpack[Filters]) -> AsyncIterator[ListedJob]:
        """Yield the jobs of the account, newest first, and fetch pages as they are needed.

        async for job in client.jobs.list(status=["failed"], metadata={"guild": "7"}):
            print(job.id, job.error_code)
        """
        cursor, pace = None, Pace()
        while True:
            page = await self.page(limit=page_size, cursor=cursor, **filters)
            for job in page.jobs:
                yield job
            cursor = page.page.next_cursor
            if cursor is None:
                return
            if not page.jobs:
                await asyncio.sleep(pace.delay())

    async def page(self, *, limit: int = 25, cursor: str | None = None, **filters: Unpack[Filters]) -> JobList:
        """Return one page of jobs with the filters of `list`.

        `cursor` is `page.next_cursor` of the page before. A page can have fewer jobs than `limit` although there
        are more.
        """
        params = list_query(filters, limit=limit, cursor=cursor)
        return await self._transport.call(JobList, "GET", "jobs", params=params)

    async def by_ids(self, ids: Collection[str]) -> dict[str, ListedJob]:
        """Return up to 100 jobs by their ids, without those that the account does not have."""
        if not ids:
            return {}
        found = await self._transport.call(JobList, "GET", "jobs", params={"ids": ",".join(ids)})
        return {job.id: job for job in found.jobs}

    async def validate(self, profile: str, **options: Unpack[Options]) -> Validation:
        """Return whether a submission would be accepted, and what it would cost. Nothing is stored or charged."""
        return await self._transport.call(
            Validation, "POST", "jobs", "validate", json=submission(profile, **options)
        )

    async def download(
        self, job_id: str, folder: Path, *, kinds: Collection[ArtifactKind] | None = None
    ) -> Mapping[str, Path]:
        """Download the artifacts of a job into a folder and return the files by the names of the artifacts.

        `kinds` selects some of them. Existing files are replaced. Raises DownloadFailed.
        """
        result = (await self.results(job_id)).result
        wanted = [artifact for artifact in result.artifacts if kinds is None or artifact.kind in kinds]
        return {
            artifact.name: await self._artifacts.download(artifact, folder / safe_name(artifact.name))
            for artifact in wanted
        }


def _wait_seconds(remaining: float | None) -> int:
    """Return for how long a request shall wait, when some seconds remain."""
    return WAIT_SECONDS if remaining is None else max(0, min(WAIT_SECONDS, int(remaining)))
