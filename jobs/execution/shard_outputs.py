"""The outputs of a sharded stage: one report, one input and one log of each stream, merged from its shards."""

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import BinaryIO, cast

from django.conf import settings

from jobs.artifacts.artifact_files import NotStored
from jobs.execution import log_merge
from jobs.execution.outputs import LOGS
from jobs.execution.runner import LOG_BYTES
from jobs.execution.shard_intake import Intake
from jobs.models import Artifact
from simc import report_merge, reports
from simc.report_merge import BrokenShardReport
from simc.reports import BrokenReport, Report


class ShardOutputs:
    """The outputs of the shards that an intake has taken in. `count` is the planned number of shards."""

    def __init__(self, intake: Intake, *, count: int) -> None:
        self.intake, self.count = intake, count

    def report(self) -> Report | BrokenReport:
        """Return the report of all shards, or why there is none."""
        first = self.intake.taken.get(0)
        if first is None or first.report is None:
            return BrokenReport("the shard with the baseline has no report")
        others = [taken.report for number, taken in sorted(self.intake.taken.items()) if number and taken.report]
        return reports.merged_report(first.report, others)

    def contents(self, text: str) -> Iterator[tuple[Artifact.Kind, BinaryIO]]:
        """Yield the stage's artifacts, without the report if it cannot be merged; `text` is its input."""
        note = f"# The service split this stage into {self.count:,} shards with the same profilesets.\n"
        yield Artifact.Kind.INPUT, io.BytesIO((text + note).encode())
        report = self._merged_report()
        if report is not None:
            yield Artifact.Kind.JSON_REPORT, report
        for kind in LOGS:
            yield kind, self._merged_log(kind)

    def _merged_report(self) -> BinaryIO | None:
        readers = dict(self.intake.opened(Artifact.Kind.JSON_REPORT))
        if 0 not in readers:
            return None
        first = readers.pop(0)
        return _written(lambda target: _merge(first, list(readers.values()), target))

    def _merged_log(self, kind: Artifact.Kind) -> BinaryIO:
        parts = [(self._heading(number), opener) for number, opener in self.intake.opened(kind)]
        merged = _written(lambda target: log_merge.merge_logs(parts, target, max_bytes=LOG_BYTES))
        return merged or io.BytesIO()

    def _heading(self, number: int) -> str:
        return f"shard {number + 1} of {self.count}"


def _merge(first: Callable[[], BinaryIO], others: list[Callable[[], BinaryIO]], target: BinaryIO) -> None:
    with first() as base:
        report_merge.merge(base, others, target, max_bytes=settings.SIM_OUTPUT_BYTES)


def _written(write: Callable[[BinaryIO], None]) -> BinaryIO | None:
    """Return a temporary file with what `write` writes, or None if the shards' reports cannot be merged.

    Raises NotStored if the disk fails.
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
    except OSError as error:
        raise NotStored(f"the outputs of the shards cannot be merged: {error}") from error
