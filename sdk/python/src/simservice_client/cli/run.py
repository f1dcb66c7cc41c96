"""`simctl run`: submit profiles, follow the jobs, and print their results.

Ctrl-C must end the command at once, wherever it comes. The asynchronous client is cancelled where it waits; the
synchronous one can be interrupted while it holds the lock of its connections, and would wait for that lock forever.
"""

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from simservice_client import AsyncClient, Options
from simservice_client._files import safe_name
from simservice_client.cli import interruption
from simservice_client.cli.console import Console
from simservice_client.cli.exits import Exit, message_of, status_of
from simservice_client.cli.formats import state
from simservice_client.cli.profiles import ProfileFile, read_profiles
from simservice_client.cli.progress import progress_text
from simservice_client.cli.ranking import print_result
from simservice_client.cli.session import open_client
from simservice_client.cli.weights import has_weights
from simservice_client.error_codes import ResultUnavailable
from simservice_client.errors import ApiError, SimserviceError
from simservice_client.models import JobResult, JobStatus, ProfileWarning

# A key that is refused for one profile is refused for all: unknown, or not allowed to submit
KEY_REFUSED = (401, 403)


@dataclass(frozen=True)
class SubmittedFile:
    """A job and the file that it is from."""

    name: str
    job_id: str


def run(arguments: Namespace, console: Console) -> int:
    """Submit all files, then follow their jobs. Return the highest exit status of all."""
    profiles = read_profiles(arguments.files)
    batch = Batch(AsyncClient(arguments.url), console, arguments)
    try:
        asyncio.run(batch.run(profiles))
    except KeyboardInterrupt:
        with open_client(arguments) as client:
            return interruption.handle(client, console, [each.job_id for each in batch.unfinished])
    return max(batch.statuses, default=Exit.COMPLETED)


def options_of(arguments: Namespace) -> Options:
    """Return the options of the submission that were given."""
    given: dict[str, Any] = {name: getattr(arguments, name, None) for name in Options.__annotations__}
    if arguments.metadata is not None:
        given["metadata"] = dict(arguments.metadata)
    return cast(Options, {name: value for name, value in given.items() if value is not None})


def complain_about(console: Console, name: str, warnings: Sequence[ProfileWarning] | None) -> None:
    """Print the warnings about a profile, with line numbers where there are any."""
    for warning in warnings or []:
        place = name if warning.line is None else f"{name}:{warning.line}"
        console.complain(f"{place}: warning: {warning.message}")


@dataclass
class Batch:
    """The jobs of one command."""

    client: AsyncClient
    console: Console
    arguments: Namespace
    unfinished: list[SubmittedFile] = field(default_factory=list)
    statuses: list[Exit] = field(default_factory=list)
    is_single: bool = True

    async def run(self, profiles: Sequence[ProfileFile]) -> None:
        """Submit all profiles, then follow their jobs."""
        async with self.client:
            await self._submit_all(profiles)
            await self._follow_all()

    async def _submit_all(self, profiles: Sequence[ProfileFile]) -> None:
        """Submit all profiles. One that is refused does not prevent the others."""
        self.is_single = len(profiles) == 1
        for place, profile in enumerate(profiles, 1):
            if not await self._submit(profile):
                self._give_up(len(profiles) - place)
                return

    async def _follow_all(self) -> None:
        """Wait for each job and print its result."""
        while self.unfinished and not self.arguments.no_wait:
            job = self.unfinished[0]
            try:
                await self._follow(job)
            except SimserviceError as error:
                self._fail(f"{job.name}: job {job.job_id}", error)
            self.unfinished.pop(0)

    async def _submit(self, profile: ProfileFile) -> bool:
        """Submit a profile. Return whether others can be submitted."""
        try:
            await self._announce(profile)
        except SimserviceError as error:
            self._fail(profile.name, error)
            return isinstance(error, ApiError) and error.status not in KEY_REFUSED
        return True

    async def _announce(self, profile: ProfileFile) -> None:
        job = await self.client.jobs.submit(profile.text, **options_of(self.arguments))
        self.unfinished.append(SubmittedFile(profile.name, job.id))
        if self.console.as_json:
            self.console.event({"type": "submitted", "file": profile.name, "job": job.to_json()})
        elif self.arguments.no_wait:
            self.console.line(job.id)
        complain_about(self.console, profile.name, job.warnings)
        self.console.note(f"{profile.name}: submitted as job {job.id}")

    async def _follow(self, job: SubmittedFile) -> None:
        status = await self.client.jobs.wait(
            job.job_id, preview=True, on_status=lambda status: self._show_status(job, status)
        )
        self.console.clear_progress()
        result = await self._result(job)
        if result is not None:
            self._show_result(job, result)
        if status.status == "completed":
            self.statuses.append(Exit.COMPLETED)
        else:
            reason = status.status_reason or status.error_code or "no reason given"
            self.console.complain(f"{job.name}: job {job.job_id} {state(status.status)}: {reason}")
            self.statuses.append(Exit.NOT_COMPLETED)
        if result is not None and self.arguments.output is not None:
            await self._download(job)

    def _show_status(self, job: SubmittedFile, status: JobStatus) -> None:
        if self.console.as_json:
            self.console.event({"type": "status", "file": job.name, "status": status.to_json()})
        elif self.console.shows_progress:
            self.console.progress(progress_text(job.name, status, columns=self.console.error_columns))

    async def _result(self, job: SubmittedFile) -> JobResult | None:
        """Return the result, None if the job ended before it ran."""
        try:
            result = await self.client.jobs.results(job.job_id)
            return await self.client.jobs.results(job.job_id, details=True) if has_weights(result) else result
        except ResultUnavailable:
            return None

    def _show_result(self, job: SubmittedFile, result: JobResult) -> None:
        if self.console.as_json:
            self.console.event({"type": "result", "file": job.name, "result": result.to_json()})
        else:
            if not self.is_single:
                self.console.line(f"{job.name}:")
            print_result(self.console, result)

    async def _download(self, job: SubmittedFile) -> None:
        folder = Path(self.arguments.output)
        await self.client.jobs.download(job.job_id, folder if self.is_single else folder / safe_name(job.job_id))

    def _fail(self, name: str, error: SimserviceError) -> None:
        """Report an error about one of the files."""
        self.console.complain(f"{name}: {message_of(error)}")
        self.statuses.append(status_of(error))
        if self.console.as_json:
            self.console.event({"type": "error", "file": name, "message": message_of(error)})

    def _give_up(self, count: int) -> None:
        if count:
            self.console.complain(f"{count} more {'file was' if count == 1 else 'files were'} not submitted.")
