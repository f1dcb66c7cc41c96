"""The results of a stage's shards: fetched from the storage and checked as soon as each shard ends, then merged."""

import gzip
import hashlib
import io
import logging
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from django.conf import settings

from jobs.artifacts.artifact_files import NotStored
from jobs.enums import ShardStatus
from jobs.execution import log_merge, shard_files, shard_plan
from jobs.execution.directories import scratch_folder
from jobs.execution.machine import machine
from jobs.execution.outputs import LOGS, Scrubber, pooled_report
from jobs.execution.runner import LOG_BYTES
from jobs.execution.shard_files import ShardResult
from jobs.execution.shard_plan import ProfilesetText
from jobs.lifecycle import shard_moves
from jobs.models import Artifact, Shard, ShardedStage
from simc import report_merge, report_reader
from simc.profiles.numbers import Precision
from simc.report_merge import BrokenShardReport
from simc.reports import BrokenReport, Report, merged_report, wrong_iterations

logger = logging.getLogger(__name__)

# If the storage fails for longer, the attempt is lost.
MAX_OUTAGE_SECONDS = 60.0
# Errors raised for an incomplete compressed file.
UNREADABLE = (EOFError, zlib.error, gzip.BadGzipFile)


class Rejected(Exception):
    """The report of a shard cannot be used; the message says why."""


@dataclass(frozen=True)
class CollectedShard:
    """A shard that has ended, with its report, if it has one."""

    shard: Shard
    report: Report | None


class ShardResults:
    """Collects ended shards: fetches their files into a folder, and checks their logs and reports.

    `groups` contains the profilesets of each shard but the first. The profilesets `replicated` ran twice. Files of
    the stage have their names without the `suffix` of the second run.
    """

    def __init__(
        self,
        numbers: Precision,
        stage: ShardedStage,
        *,
        groups: Sequence[Sequence[ProfilesetText]],
        replicated: Collection[str] = (),
        suffix: str = "",
    ) -> None:
        self.stage, self.precision, self.groups = stage, numbers, groups
        self.replicated, self.scrubber = replicated, Scrubber(suffix=suffix)
        self.count = 1 + len(groups)
        self.resources = ExitStack()
        self.folder = self.resources.enter_context(scratch_folder())
        self.collected: dict[int, CollectedShard] = {}
        self.lock = threading.Lock()
        self.failing_since: float | None = None

    def is_complete(self) -> bool:
        """Return whether every ended shard is collected. Raises NotStored, MachineFault or a database error."""
        if self.failing_since is not None:
            machine.require_working()
            if time.monotonic() - self.failing_since > MAX_OUTAGE_SECONDS:
                raise NotStored("the reports of shards cannot be read from the storage")
        return not self._new_shards()

    def collect(self) -> None:
        """Collect the shards that have ended since the last call. Raises a database error."""
        with self.lock:
            for shard in self._new_shards():
                try:
                    self._collect(shard)
                except Rejected as error:
                    self._reject(shard, str(error))
                except OSError as error:
                    logger.warning("shard %s: its files cannot be fetched; trying again: %s", shard, error)
                    self.failing_since = self.failing_since or time.monotonic()
                    return
            self.failing_since = None

    def _new_shards(self) -> list[Shard]:
        """Return the ended shards that are not collected yet. One query."""
        ended = Shard.objects.filter(stage=self.stage, result__isnull=False).order_by("number")
        return list(ended.exclude(number__in=list(self.collected)).defer("text"))

    def _collect(self, shard: Shard) -> None:
        """Fetch the files of a shard and check its report. Raises Rejected, or OSError if the storage fails."""
        result = ShardResult.of_json(cast(dict[str, Any], shard.result))
        for kind in shard_files.KINDS if result.has_report else LOGS:
            self._fetch(shard, kind)
            self._require_stored(shard, kind, result.digests.get(kind))
        report = self._read(shard) if result.has_report else None
        self.collected[shard.number] = CollectedShard(shard, report and self._checked(shard, report))

    def _fetch(self, shard: Shard, kind: Artifact.Kind) -> None:
        """Fetch a file. Raises Rejected if a done shard lacks it, or OSError if the storage fails."""
        try:
            with self._path(shard.number, kind).open("wb") as target:
                shard_files.fetch(self.stage, kind, target, number=shard.number, try_number=shard.try_number)
        except FileNotFoundError as error:
            if shard.status == ShardStatus.DONE:
                raise Rejected(f"a file is missing: {error}") from error

    def _require_stored(self, shard: Shard, kind: Artifact.Kind, digest: str | None) -> None:
        """Read a fetched file. If it is another one, raise Rejected, or empty it for a stopped shard."""
        problem = self._damage(shard, kind, digest)
        if not problem:
            return
        if shard.status == ShardStatus.DONE:
            raise Rejected(f"its {kind} cannot be used: {problem}")
        self._path(shard.number, kind).write_bytes(b"")

    def _damage(self, shard: Shard, kind: Artifact.Kind, digest: str | None) -> str:
        """Return what is wrong with a fetched file, empty if it is the one stored."""
        try:
            with self.open(shard.number, kind) as content:
                found = hashlib.file_digest(cast(io.BufferedIOBase, content), "sha256").hexdigest()
        except UNREADABLE as error:
            return str(error)
        return "" if digest in (None, found) else "the storage returned different content"

    def _read(self, shard: Shard) -> Report | None:
        """Return the report of a shard. Raises Rejected unless the shard was stopped."""
        try:
            with self.open(shard.number, Artifact.Kind.JSON_REPORT) as stream:
                return report_reader.read_report(
                    stream,
                    max_bytes=settings.SIM_OUTPUT_BYTES,
                    stage=self.stage.stage,
                    # Only shard 0 has the full baseline.
                    with_details=shard.number == 0,
                )
        except (BrokenReport, *UNREADABLE) as error:
            if shard.status != ShardStatus.DONE:
                return None
            raise Rejected(f"its report cannot be read: {error}") from error

    def _checked(self, shard: Shard, report: Report) -> Report | None:
        """Return a report if it can be used. Else raise Rejected, or return None if the shard was stopped."""
        problem = self._problem(shard, report) if shard.number else None
        if problem is None:
            return report
        if shard.status == ShardStatus.DONE:
            raise Rejected(problem)
        logger.warning("shard %s of job %s was stopped, and %s", shard, self.stage.job_id, problem)
        return None

    def _problem(self, shard: Shard, report: Report) -> str | None:
        """Return why a report cannot be used, or None.

        Either profilesets are missing or belong to other shards, or one ran with a wrong number of iterations. With
        the full baseline, a wrong number is accepted, because the profile itself then causes it.
        """
        names = {profileset.name for profileset in report.profilesets}
        planned = {profileset.name for profileset in self.groups[shard.number - 1]}
        # A stopped shard reports what it finished. If no actor does damage, reports leave profilesets out.
        must_have_all = shard.status == ShardStatus.DONE and report.players[0].dps.mean > 0
        if names - planned or (must_have_all and planned - names):
            return "its report does not contain its profilesets"
        wrong = wrong_iterations(
            report,
            expected=self.precision.iterations,
            target_error=self.precision.target_error,
            threads=self.stage.job.vcpus,
        )
        return None if shard.full_baseline else wrong

    def _reject(self, shard: Shard, reason: str) -> None:
        """Return a shard to the queue. Its next try runs the full baseline, in case the short one was the cause."""
        logger.warning("shard %s of job %s runs again: %s", shard.number, self.stage.job_id, reason)
        text = shard_plan.shard_text(self.groups[shard.number - 1], numbers=None) if shard.number else None
        # An attempt that has lost the stage moves nothing, and must not remove files.
        if shard_moves.reject_shard(shard, attempt=self.stage.attempt, text=text):
            shard_files.remove(self.stage, number=shard.number, try_number=shard.try_number)

    def _path(self, number: int, kind: Artifact.Kind) -> Path:
        return self.folder / f"{number}-{kind}.gz"

    def open(self, number: int, kind: Artifact.Kind) -> BinaryIO:
        """Open a fetched file of a shard."""
        return cast(BinaryIO, gzip.open(self._path(number, kind)))

    def _opened(self, kind: Artifact.Kind) -> Iterator[tuple[int, Callable[[], BinaryIO]]]:
        """Yield the numbers of the shards that have such a file, in order, each with a function that opens it."""
        for number, collected in sorted(self.collected.items()):
            if kind != Artifact.Kind.JSON_REPORT or collected.report is not None:
                yield number, partial(self.open, number, kind)

    def report(self) -> Report | BrokenReport:
        """Return the report of all shards, or why there is none."""
        reports = {number: collected.report for number, collected in sorted(self.collected.items())}
        first = reports.pop(0, None)
        if first is None:
            return BrokenReport("the shard with the baseline has no report")
        return merged_report(first, [report for report in reports.values() if report])

    def artifacts(self, ran: str) -> Iterator[tuple[Artifact.Kind, BinaryIO]]:
        """Yield the stage's artifacts, without the report if it cannot be merged. `ran` is the input."""
        note = f"# The service split this stage into {self.count:,} shards with the same profilesets.\n"
        yield Artifact.Kind.INPUT, io.BytesIO((ran + note).encode())
        report = self._merged_report()
        if report is not None:
            yield Artifact.Kind.JSON_REPORT, report
        yield from self.logs()

    def logs(self) -> Iterator[tuple[Artifact.Kind, BinaryIO]]:
        """Yield one log of each stream, with a heading for each shard."""
        for kind in LOGS:
            yield kind, self._merged_log(kind)

    def _merged_log(self, kind: Artifact.Kind) -> BinaryIO:
        parts = [(f"shard {number + 1} of {self.count}", opener) for number, opener in self._opened(kind)]
        merged = _written(lambda target: log_merge.merge_logs(parts, target, max_bytes=LOG_BYTES))
        return self.scrubber.stream(merged or io.BytesIO())

    def _merged_report(self) -> BinaryIO | None:
        readers = dict(self._opened(Artifact.Kind.JSON_REPORT))
        if 0 not in readers:
            return None

        def merge(target: BinaryIO) -> None:
            with readers.pop(0)() as base:
                report_merge.merge(base, list(readers.values()), target, max_bytes=settings.SIM_OUTPUT_BYTES)

        merged = _written(merge)
        try:
            return merged and pooled_report(self.scrubber.stream(merged), self.replicated)
        except BrokenReport:
            return None
        except OSError as error:
            raise NotStored(f"the report of the shards cannot be written: {error}") from error

    def close(self) -> None:
        """Remove the fetched files."""
        self.resources.close()


def _written(write: Callable[[BinaryIO], None]) -> BinaryIO | None:
    """Return a temporary file with what `write` writes, or None if the shards' reports cannot be merged.

    Raises NotStored if the disk fails, or if a fetched file was damaged on it.
    """
    try:
        with ExitStack() as resources:
            content = cast(BinaryIO, resources.enter_context(tempfile.TemporaryFile()))
            write(content)
            content.seek(0)
            resources.pop_all()
            return content
    except (BrokenReport, BrokenShardReport):
        return None
    except (OSError, *UNREADABLE) as error:
        raise NotStored(f"the outputs of the shards cannot be merged: {error}") from error
