"""Write one report of a job that ran in stages, in which each profileset has the result of one of the stages."""

import shutil
from collections.abc import Container, Iterable
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from simc.report_merge import Events, Profilesets, Rewriter, Writer, collect, entries, limited, rewrite, skip_rest
from simc.report_values import clean
from simc.reports import BrokenReport


class StageReports(Profilesets):
    """Collects results from the reports of stages, in temporary files that `close` removes.

    Each report may have `max_bytes`. Memory: 10 MB, and at most 90 MB for names.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.resources = ExitStack()
        super().__init__(limited(self._file(), max_bytes), limited(self._file(), max_bytes))
        self.base: BinaryIO | None = None
        # The place and the length of each profileset's result in the file of results
        self.parts: dict[str, tuple[int, int]] = {}
        self.wanted: Container[str] = ()

    def _file(self) -> BinaryIO:
        return cast(BinaryIO, self.resources.enter_context(TemporaryFile()))

    def add(self, report: BinaryIO, *, names: Container[str], is_base: bool) -> None:
        """Take the results of the profilesets `names` from a report, instead of those of earlier reports.

        If it `is_base`, everything but the results comes from it too. Raises BrokenReport.
        """
        self.wanted = names
        # The results of each report can be as large as the report.
        self.results.max_bytes = self.results.file.tell() + self.max_bytes
        collect(report, self, max_bytes=self.max_bytes)
        if is_base:
            report.seek(0)
            self.base = self.base or self._file()
            self.base.seek(0)
            self.base.truncate()
            shutil.copyfileobj(report, self.base)

    def read_results(self, events: Events) -> None:
        for _ in entries(events):
            start, self.results.separator = self.results.mark()[0], ""
            name = clean(self.copied_entry(events))
            if name in self.wanted:
                self.parts[name] = (start, self.results.file.tell() - start)
            else:
                self.results.rewind((start, ""))

    def write(self, target: BinaryIO, *, order: Iterable[str]) -> None:
        """Write the report of all stages, with the results of the profilesets in `order`.

        Profilesets without a result are left out. Raises BrokenReport if no report is the base, or ReportsTooLarge
        if the target would exceed `max_bytes`.
        """
        if self.base is None:
            raise BrokenReport("no stage has a report")
        self.base.seek(0)
        parts = (self.parts[name] for name in order if name in self.parts)
        rewrite(self.base, _Ordered(limited(target, self.max_bytes), self, parts), max_bytes=self.max_bytes)

    def close(self) -> None:
        """Remove the files."""
        self.resources.close()


class _Ordered(Rewriter):
    """The report of the base with parts of the collected results."""

    def __init__(self, writer: Writer, collected: StageReports, parts: Iterable[tuple[int, int]]) -> None:
        super().__init__(writer, fields=collected.fields if collected.is_present else None)
        self.file, self.parts = collected.results.file, parts

    def write_results(self, events: Events | None) -> None:
        if events is not None:
            skip_rest(events)
        for start, size in self.parts:
            self.writer.append_part(self.file, start=start, size=size)
