"""The JSON report of a job in stages, written from the reports of its stages."""

from collections.abc import Iterator
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import BinaryIO, Self, cast

from django.conf import settings

from jobs.artifacts.artifact_files import NotStored
from jobs.execution.results import Results
from jobs.models import Artifact
from simc.reports import BrokenReport, best_first
from simc.stage_reports import StageReports

Contents = Iterator[tuple[Artifact.Kind, BinaryIO]]


class JobReport:
    """Collects the reports of the stages while they are stored. `problem` says why it cannot be written."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.collected = StageReports(max_bytes=settings.SIM_OUTPUT_BYTES)
        self.problem: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.collected.close()

    def reading(self, contents: Contents, *, stage: int) -> Contents:
        """Yield the artifacts of a stage whose report was added to the results. Raises NotStored."""
        for kind, content in contents:
            if kind == Artifact.Kind.JSON_REPORT:
                self._add(content, stage=stage)
                content.seek(0)
            yield kind, content

    def _add(self, report: BinaryIO, *, stage: int) -> None:
        """Add the profilesets whose final results come from a stage. Raises NotStored."""
        names, is_base = self.results.names_of(stage), self.results.base_stage == stage
        try:
            if names or is_base:
                self.collected.add(report, names=names, is_base=is_base)
        except BrokenReport as error:
            self.problem = f"the report of stage {stage} cannot be used: {error}"
        except OSError as error:
            raise NotStored(f"the report of stage {stage} cannot be read: {error}") from error

    def open(self) -> BinaryIO | None:
        """Return the report, best profilesets first, or None if it cannot be written. Raises NotStored."""
        if self.results.report is None or self.problem:
            return None
        order = [entry.name for entry in best_first(self.results.report.profilesets)]
        try:
            with ExitStack() as resources:
                target = cast(BinaryIO, resources.enter_context(TemporaryFile()))
                self.collected.write(target, order=order)
                target.seek(0)
                resources.pop_all()
                return target
        except BrokenReport as error:
            self.problem = f"the reports of the stages cannot be merged: {error}"
            return None
        except OSError as error:
            raise NotStored(f"the report of all stages cannot be written: {error}") from error
