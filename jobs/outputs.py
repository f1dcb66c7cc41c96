"""What a run leaves in its directory, cleared of the job's secrets: its report, its last words, its artifacts."""

import io
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import BinaryIO

from jobs import artifacts, runner
from jobs.models import Artifact, Job
from jobs.scrubbing import Scrubber
from jobs.simulator import command, reports
from jobs.simulator.reports import BrokenReport, Report
from jobs.simulator.sandbox import PrivateDirectory, UnsafeProduct, open_product

logger = logging.getLogger(__name__)

STDERR_TAIL_BYTES = 16 << 10
Opener = Callable[[], BinaryIO | None]
LOGS = {Artifact.Kind.STDOUT_LOG: "stdout", Artifact.Kind.STDERR_LOG: "stderr"}


class Outputs:
    """The outputs of one job's run, to be read once the simulator has ended.

    `stage` is None for a single pass; a page is kept of the run that `has_page`.
    """

    def __init__(
        self, job: Job, directory: PrivateDirectory, scrubber: Scrubber, *, stage: int | None, has_page: bool
    ) -> None:
        self.job = job
        self.stage = stage
        self.has_page = has_page
        self.directory = directory
        self.scrubber = scrubber

    @cached_property
    def report(self) -> Report | None:
        """The JSON report, or None when there is none that can be read."""
        stream = self._product(command.REPORT_NAME)
        if stream is None:
            return None
        with stream:
            try:
                return reports.read_report(stream, max_bytes=runner.MAX_REPORT_BYTES, stage=self.stage or 1)
            except BrokenReport as error:
                logger.info("job %s: no usable report: %s", self.job.pk, error)
                return None

    def complaint(self) -> str | None:
        """Return the simulator's own last error message."""
        with self.directory.log("stderr").open("rb") as log:
            log.seek(max(0, log.seek(0, io.SEEK_END) - STDERR_TAIL_BYTES))
            return reports.failure_message(self.scrubber.text(log.read().decode(errors="replace")))

    def store(self, *, ran: str) -> Iterator[Artifact]:
        """Store everything worth keeping, one by one, and yield the rows, not yet saved; `ran` is the input.

        Raises NotStored or WorkerStops.
        """
        return self._store(self._kept(ran))

    def store_logs(self) -> Iterator[Artifact]:
        """Store the logs alone, as `store` does."""
        return self._store(self._logs())

    def _store(self, openers: Iterable[tuple[Artifact.Kind, Opener]]) -> Iterator[Artifact]:
        for kind, opened in openers:
            content = opened()
            if content is not None:
                with content:
                    yield artifacts.store(self.job, kind, content, stage=self.stage)

    def _kept(self, ran: str) -> Iterator[tuple[Artifact.Kind, Opener]]:
        """Yield the kinds of artifacts, each with what opens its content, or finds that there is none."""
        yield Artifact.Kind.INPUT, lambda: io.BytesIO(self.scrubber.text(ran).encode())
        yield Artifact.Kind.JSON_REPORT, partial(self._product, command.REPORT_NAME)
        if self.has_page:
            yield Artifact.Kind.HTML_REPORT, partial(self._product, command.HTML_NAME)
        yield from self._logs()

    def _logs(self) -> Iterator[tuple[Artifact.Kind, Opener]]:
        for kind, stream in LOGS.items():
            yield kind, partial(self._log, stream)

    def _product(self, name: str) -> BinaryIO | None:
        """Open a file that the simulator wrote; None when there is none that can be kept."""
        try:
            product = open_product(self.directory.cwd, name, max_bytes=runner.MAX_REPORT_BYTES)
        except UnsafeProduct as error:
            logger.info("job %s: %s is not kept: %s", self.job.pk, name, error)
            return None
        return product and self.scrubber.stream(product)

    def _log(self, stream: str) -> BinaryIO:
        return self.scrubber.stream(self.directory.log(stream).open("rb"))
