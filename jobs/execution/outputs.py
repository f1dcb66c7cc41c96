"""The outputs of a run, without the job's secrets: its report, its messages and its artifacts."""

import base64
import html
import io
import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, BinaryIO, cast
from urllib.parse import quote

from django.conf import settings

from jobs.artifacts.credentials import GameCredentials
from jobs.models import Artifact, Build, Job
from sandbox.private_directory import PrivateDirectory, UnsafeOutput, open_output
from simc import command, messages, report_pooling, report_reader
from simc.reports import BrokenReport, Report

MARK = "[removed]"
# A shorter text is not a secret, and removing every occurrence of it would destroy a report.
MIN_CHARACTERS = 8
CHUNK_BYTES = 1 << 16


class Scrubber:
    """Replaces secrets by a mark, in each spelling that logs and reports use, and removes `suffix`."""

    def __init__(self, secrets: Iterable[str] = (), *, suffix: str = "") -> None:
        self.secrets, self.suffix = tuple(secrets), suffix
        unordered = {form for each in self.secrets if len(each) >= MIN_CHARACTERS for form in _spellings(each)}
        # The longest first, because one secret can begin with another.
        forms = sorted({*unordered, suffix} - {""}, key=len, reverse=True)
        self.longest = len(forms[0]) if forms else 0
        self.pattern = re.compile("|".join(map(re.escape, forms)))
        self.byte_pattern = re.compile(b"|".join(re.escape(form.encode()) for form in forms))

    def without(self, suffix: str) -> "Scrubber":
        """Return a scrubber that also removes the suffix of replicates' names."""
        return Scrubber(self.secrets, suffix=suffix) if suffix else self

    def text(self, text: str) -> str:
        """Return a text with the secrets replaced."""
        if not self.longest:
            return text
        return self.pattern.sub(lambda found: "" if found[0] == self.suffix else MARK, text)

    def stream(self, stream: BinaryIO) -> BinaryIO:
        """Return a copy with the secrets replaced, and close the file; without secrets, return the file."""
        if not self.longest:
            return stream
        clean = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the reader
        with stream:
            clean.writelines(self._pieces(stream))
        clean.seek(0)
        return cast(BinaryIO, clean)

    def _pieces(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the content in pieces, holding back each end, which can be the start of a secret."""
        pending = b""
        while data := stream.read(CHUNK_BYTES):
            pending = self.byte_pattern.sub(self._replacement, pending + data)
            yield pending[: -self.longest]
            pending = pending[-self.longest :]
        yield pending

    def _replacement(self, found: re.Match[bytes]) -> bytes:
        return b"" if found[0] == self.suffix.encode() else MARK.encode()


def _spellings(secret: str) -> set[str]:
    """Return the spellings of a secret in plain text, JSON, HTML and URLs."""
    return {secret, json.dumps(secret)[1:-1], html.escape(secret), quote(secret), quote(secret, safe="")}


def scrubber_of(credentials: GameCredentials | None) -> Scrubber:
    """Return the scrubber for a job's game credentials; without credentials it replaces nothing."""
    if credentials is None:
        return Scrubber()
    pair = f"{credentials.client_id}:{credentials.client_secret}"
    # As sent in a request for a token.
    basic = base64.b64encode(pair.encode()).decode()
    return Scrubber([credentials.client_id, credentials.client_secret, basic])


logger = logging.getLogger(__name__)

VERSION_WITHIN_LINES = 20
NOT_WRITTEN = "the simulator did not write it"
Opener = Callable[[], BinaryIO | None]
LOGS = {Artifact.Kind.STDOUT_LOG: "stdout", Artifact.Kind.STDERR_LOG: "stderr"}


class Outputs:
    """The outputs of a run whose simulator has ended.

    `stage` is None for a single pass. `has_html` says whether the run writes the HTML report. The profilesets
    `replicated` ran twice, the second time under a name that ends with `suffix`.
    """

    def __init__(
        self,
        job: Job,
        directory: PrivateDirectory,
        scrubber: Scrubber,
        *,
        stage: int | None,
        has_html: bool,
        replicated: Collection[str] = (),
        suffix: str = "",
    ) -> None:
        self.job = job
        self.stage = stage
        self.has_html = has_html
        self.directory = directory
        # Only the report is read with the names of replicates.
        self.scrubber, self.public_scrubber = scrubber, scrubber.without(suffix)
        self.replicated = replicated
        # Requested artifacts that could not be stored, as `missing` returns them.
        self.missing: list[dict[str, Any]] = []
        # Why the HTML report must not be stored although its file may exist.
        self.html_problem: str | None = None

    @cached_property
    def report(self) -> Report | BrokenReport:
        """Return the JSON report, or why it cannot be read."""
        try:
            stream = self._output_file(command.REPORT_NAME, self.scrubber)
            if stream is None:
                return BrokenReport("the file is missing")
            with stream:
                return report_reader.read_report(
                    stream, max_bytes=settings.SIM_OUTPUT_BYTES, stage=self.stage or 1, with_details=True
                )
        except UnsafeOutput as error:
            return BrokenReport(str(error))
        except BrokenReport as error:
            return error

    def error_message(self) -> str | None:
        """Return the simulator's error message, or None."""
        return messages.failure_message(self.lines("stderr"), self.lines("stdout"))

    def last_remark(self) -> str | None:
        """Return the simulator's last message on stderr, or None."""
        return messages.last_remark(self.lines("stderr"))

    def is_cut_short(self) -> bool:
        """Return whether the simulator says that it ended before it had simulated everything."""
        return messages.is_cut_short(chain(self.lines("stderr"), self.lines("stdout")))

    def warnings(self) -> list[str]:
        """Return the simulator's warnings on stderr, on stdout and in its report."""
        report = self.report
        reported = () if isinstance(report, BrokenReport) else map(self.public_scrubber.text, report.warnings)
        printed = messages.printed_warnings(self.lines("stdout"))
        return messages.distinct([*messages.warnings(self.lines("stderr")), *printed, *reported])

    def html_warnings(self) -> list[str]:
        """Return a warning if the HTML report was requested and cannot be stored."""
        if not self.has_html:
            return []
        try:
            report, reason = self._html(), NOT_WRITTEN
        except UnsafeOutput as error:
            report, reason = None, str(error)
        if report is None:
            return [f"The HTML report is missing: {reason}."]
        report.close()
        return []

    def version(self) -> str | None:
        """Return the version that the simulator printed at the beginning, or None."""
        version = command.parse_version_line("\n".join(islice(self.lines("stdout"), VERSION_WITHIN_LINES)))
        return version.simc_version if version else None

    def version_warnings(self, build: Build) -> list[str]:
        """Return a warning if the simulator's version is not its build's, because its file was replaced."""
        version, registered = self.version(), build.simc_version
        if version in (None, registered):
            return []
        logger.error("build %s was registered as %s and is now %s; register it again", build, registered, version)
        return [f"The simulator reports version {version}, but its build was registered with version {registered}."]

    def lines(self, stream: str) -> Iterator[str]:
        """Yield the lines of a log."""
        with self.directory.log(stream).open(encoding="utf-8", errors="replace", newline="\n") as log:
            yield from map(self.public_scrubber.text, log)

    def artifacts(self, ran: str) -> Iterator[tuple[Artifact.Kind, BinaryIO]]:
        """Yield all artifacts with their contents. `ran` is the input.

        Requested artifacts that cannot be stored are added to `missing`.
        """
        return self._opened(self._artifacts(ran))

    def logs(self) -> Iterator[tuple[Artifact.Kind, BinaryIO]]:
        """Yield the logs."""
        return self._opened(self._logs())

    def shard_files(self, *, with_report: bool) -> Iterator[tuple[Artifact.Kind, BinaryIO]]:
        """Yield the report, if it is wanted, and the logs."""
        report = [(Artifact.Kind.JSON_REPORT, self._report)]
        return self._opened([*(report if with_report else ()), *self._logs()])

    def _opened(self, openers: Iterable[tuple[Artifact.Kind, Opener]]) -> Iterator[tuple[Artifact.Kind, BinaryIO]]:
        """Yield the artifacts that can be opened, with their content."""
        for kind, opener in openers:
            content = self._open(kind, opener)
            if content is not None:
                yield kind, content

    def _open(self, kind: Artifact.Kind, opener: Opener) -> BinaryIO | None:
        """Open an artifact's content. If that is impossible, add the artifact to `missing` and return None."""
        try:
            content, reason = opener(), NOT_WRITTEN
        except UnsafeOutput as error:
            content, reason = None, str(error)
        if content is None:
            self.missing.append(missing(kind, stage=self.stage, reason=reason))
            logger.info("job %s: no %s: %s", self.job.pk, kind, reason)
        return content

    def _artifacts(self, ran: str) -> Iterator[tuple[Artifact.Kind, Opener]]:
        """Yield the kinds of artifacts, each with a function that opens its content."""
        yield Artifact.Kind.INPUT, lambda: io.BytesIO(self.public_scrubber.text(ran).encode())
        yield Artifact.Kind.JSON_REPORT, self._report
        if self.has_html:
            yield Artifact.Kind.HTML_REPORT, self._html
        yield from self._logs()

    def _logs(self) -> Iterator[tuple[Artifact.Kind, Opener]]:
        for kind, stream in LOGS.items():
            yield kind, partial(self._log, stream)

    def _html(self) -> BinaryIO | None:
        """Open the HTML report; return None if there is none. Raises UnsafeOutput."""
        if self.html_problem:
            raise UnsafeOutput(self.html_problem)
        return self._output_file(command.HTML_NAME, self.public_scrubber)

    def _report(self) -> BinaryIO | None:
        """Open the JSON report with each profileset once; return None if there is none. Raises UnsafeOutput."""
        report = self._output_file(command.REPORT_NAME, self.public_scrubber)
        try:
            return report and pooled_report(report, self.replicated)
        except BrokenReport as error:
            raise UnsafeOutput(error.reason) from None

    def _output_file(self, name: str, scrubber: Scrubber) -> BinaryIO | None:
        """Open a file that the simulator wrote; return None if there is none. Raises UnsafeOutput."""
        output = open_output(self.directory.cwd, name, max_bytes=settings.SIM_OUTPUT_BYTES)
        if output is not None and not os.fstat(output.fileno()).st_size:
            output.close()
            raise UnsafeOutput("the file is empty")
        return output and scrubber.stream(output)

    def _log(self, stream: str) -> BinaryIO:
        return self.public_scrubber.stream(self.directory.log(stream).open("rb"))


def pooled_report(report: BinaryIO, replicated: Collection[str]) -> BinaryIO:
    """Return a report with one result for each profileset, and close the given one, in which they can have two.

    Raises BrokenReport.
    """
    if not replicated:
        return report
    with report, ExitStack() as resources:
        target = cast(BinaryIO, resources.enter_context(tempfile.TemporaryFile()))
        report_pooling.pool(report, target, names=replicated, max_bytes=settings.SIM_OUTPUT_BYTES)
        target.seek(0)
        resources.pop_all()
    return target


def missing(kind: Artifact.Kind, *, stage: int | None, reason: str) -> dict[str, Any]:
    """Return the entry of `Job.missing_artifacts` for an artifact, with the reason as a sentence."""
    return {"kind": kind.value, "stage": stage, "reason": f"{reason[:1].upper()}{reason[1:]}."}
