"""Merge the JSON reports of a stage's shards into one report.

The document is the report of shard 0. The results of its profilesets are replaced by those of the other shards, and
times and events are summed. The other shards' players, seeds and iteration data are never used, since they come
from a baseline of one iteration (`docs/reference/simulator-command-line.md#json-report`).
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from itertools import chain
from json.encoder import encode_basestring
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from simc import json_stream
from simc.json_stream import DEEPEST, Event, UnreadableJson
from simc.report_reader import MAX_ENTRIES
from simc.reports import LARGEST_NUMBER, MAX_NAME_CHARACTERS, BrokenReport

_CHUNK_BYTES = 64 << 10
_STARTS = {"start_map": "{", "start_array": "["}
_ENDS = {"end_map": "}", "end_array": "]"}


def _number(value: int | Decimal) -> str:
    """Return a number with the same digits. Integers stay integers, and fractions stay fractions."""
    text = str(value)
    return text if isinstance(value, int) or "." in text or "E" in text else f"{value:e}"


_SCALARS: dict[str, Callable[[Any], str]] = {
    "string": encode_basestring,
    "number": _number,
    "boolean": {True: "true", False: "false"}.__getitem__,
    "null": {None: "null"}.__getitem__,
}


class Writer:
    """Writes JSON in compact form, and the commas between members and entries.

    Raises `too_large` as soon as it has written more than `max_bytes`.
    """

    def __init__(self, file: BinaryIO, *, max_bytes: int, too_large: Exception) -> None:
        self.file = file
        self.max_bytes, self.too_large = max_bytes, too_large
        self.separator = ""

    def start(self, bracket: str) -> None:
        """Start an object or array."""
        self._write(bracket)
        self.separator = ""

    def end(self, bracket: str) -> None:
        """End an object or array."""
        self.separator = ""
        self._write(bracket)
        self.separator = ","
        self._check_size()

    def key(self, key: str) -> None:
        """Write the key of the next value."""
        self._write(f"{encode_basestring(key)}:")
        self.separator = ""

    def copy(self, first: Event, events: Iterator[Event]) -> None:
        """Write a value of a document. Numbers keep their digits. Raises UnreadableJson."""
        write, separator, depth = self.file.write, self.separator, 0
        for event, value in chain((first,), events):
            if event == "map_key":
                write(f"{separator}{encode_basestring(value)}:".encode())
                separator = ""
            elif event in _SCALARS:
                write(f"{separator}{_SCALARS[event](value)}".encode())
                separator = ","
            elif event in _STARTS:
                write(f"{separator}{_STARTS[event]}".encode())
                separator = ""
                depth += 1
                if depth > DEEPEST:
                    raise UnreadableJson("it is nested too deeply")
            else:
                write(_ENDS[event].encode())
                separator = ","
                depth -= 1
            if not depth:
                break
        self.separator = separator
        self._check_size()

    def append(self, other: "Writer") -> None:
        """Write the members or entries that another writer wrote to a temporary file."""
        if other.separator:
            self._write("")
            other.file.seek(0)
            shutil.copyfileobj(other.file, self.file)
            self.separator = ","
            self._check_size()

    def append_part(self, file: BinaryIO, *, start: int, size: int) -> None:
        """Write a value that is a part of a file."""
        self._write("")
        file.seek(start)
        while size > 0 and (chunk := file.read(min(size, _CHUNK_BYTES))):
            self.file.write(chunk)
            size -= len(chunk)
        self.separator = ","
        self._check_size()

    def mark(self) -> tuple[int, str]:
        """Return the position in the file, for `rewind`."""
        return self.file.tell(), self.separator

    def rewind(self, mark: tuple[int, str]) -> None:
        """Remove what was written since `mark`."""
        position, self.separator = mark
        self.file.seek(position)
        self.file.truncate()

    def _check_size(self) -> None:
        if self.file.tell() > self.max_bytes:
            raise self.too_large

    def _write(self, text: str) -> None:
        self.file.write(f"{self.separator}{text}".encode())


SUMMED = (
    "elapsed_cpu_seconds",
    "elapsed_time_seconds",
    "init_time_seconds",
    "merge_time_seconds",
    "analyze_time_seconds",
    "total_events_processed",
)
# An integer, so that comparisons are exact.
_LARGEST = int(LARGEST_NUMBER)

Number = int | Decimal
Events = Iterator[Event]


class BrokenShardReport(BrokenReport):
    """The report `others[index]` cannot be used; `reason` says why, with the subject "it"."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


class ReportsTooLarge(BrokenReport):
    """The merged report would exceed a limit; none of the reports is at fault alone."""


def merge(base: BinaryIO, others: Iterable[Callable[[], BinaryIO]], target: BinaryIO, *, max_bytes: int) -> None:
    """Write the merged report of `base`, the report of shard 0, and `others` to `target`.

    Profilesets keep the order of `others`; the first one of each name is kept. Each report, and the merged one,
    may have `max_bytes`. Each of the others is opened once, read as a stream and closed. If an error is raised, the
    target is incomplete. Memory: 10 MB, and at most 90 MB for names. Raises BrokenShardReport for one of the
    others, ReportsTooLarge, and BrokenReport for the base.
    """
    with TemporaryFile() as results, TemporaryFile() as fields:
        profilesets = Profilesets(limited(results, max_bytes), limited(fields, max_bytes))
        for index, open_report in enumerate(others):
            with _errors_of(index), closing(open_report()) as stream, whole(stream, max_bytes) as events:
                profilesets.read(events)
        rewrite(base, _Merged(limited(target, max_bytes), profilesets), max_bytes=max_bytes)


def collect(report: BinaryIO, profilesets: "Profilesets", *, max_bytes: int) -> None:
    """Read the results of a report. Raises BrokenReport."""
    with _errors_of(None), whole(report, max_bytes) as events:
        profilesets.read(events)


def rewrite(report: BinaryIO, rewriter: "Rewriter", *, max_bytes: int) -> None:
    """Read a report from its current position to the end, and rewrite it. Raises BrokenReport."""
    with _errors_of(None), whole(report, max_bytes) as events:
        rewriter.write(events)


@contextmanager
def _errors_of(index: int | None) -> Iterator[None]:
    """Attribute errors to the report with this index, or to the base."""
    try:
        yield
    except ReportsTooLarge:
        raise
    except (BrokenReport, UnreadableJson) as error:
        reason = str(error)
        raise (BrokenReport(reason) if index is None else BrokenShardReport(index, reason)) from None


@contextmanager
def whole(stream: BinaryIO, max_bytes: int) -> Iterator[Events]:
    """Read a report, completely. Raises UnreadableJson."""
    events = json_stream.events(stream, max_bytes=max_bytes)
    yield events
    json_stream.finish(events)


def limited(file: BinaryIO, max_bytes: int) -> Writer:
    """Return a writer to a file, which raises ReportsTooLarge for more than `max_bytes`."""
    return Writer(
        file, max_bytes=max_bytes, too_large=ReportsTooLarge(f"it would be larger than {max_bytes} bytes")
    )


class Profilesets:
    """What a merged report takes from others: results, times and events."""

    def __init__(self, results: Writer, fields: Writer) -> None:
        self.results = results
        # The keys beside `results` of the first report that has results.
        self.fields = fields
        self.is_present = False
        self.names: set[str] = set()
        self.name_characters = 0
        self.sums: dict[str, Number] = {}

    def read(self, events: Events) -> None:
        """Read the next report. Raises UnreadableJson and BrokenReport."""
        for key, first in unique_members(events, "sim", required=True):
            if key == "sim":
                self._read_sim(started(first, events, "sim"))
            else:
                json_stream.skip(first, events)

    def _read_sim(self, events: Events) -> None:
        for key, first in unique_members(events, "profilesets", "statistics"):
            if key == "profilesets":
                self._read_block(started(first, events, key))
            elif key == "statistics":
                self._read_statistics(started(first, events, key))
            else:
                json_stream.skip(first, events)

    def _read_block(self, events: Events) -> None:
        is_first, self.is_present = not self.is_present, True
        for key, first in unique_members(events, "results"):
            if key == "results":
                self.read_results(started(first, events, key, is_array=True))
            elif is_first:
                self.fields.key(key)
                self.fields.copy(first, events)
            else:
                json_stream.skip(first, events)

    def read_results(self, events: Events) -> None:
        """Read the entries of a report."""
        for _ in entries(events):
            mark = self.results.mark()
            if not self._is_new(self.copied_entry(events)):
                self.results.rewind(mark)

    def copied_entry(self, events: Events) -> str:
        """Copy an entry to `results`, and return its name."""
        name: object = None
        self.results.start("{")
        for key, first in unique_members(events, "name"):
            name = first[1] if key == "name" else name
            self.results.key(key)
            self.results.copy(first, events)
        self.results.end("}")
        if not isinstance(name, str):
            raise BrokenReport("its name is not a string")
        return name

    def _is_new(self, name: str) -> bool:
        if name in self.names:
            return False
        self.names.add(name)
        self.name_characters += len(name)
        if len(self.names) > MAX_ENTRIES:
            raise ReportsTooLarge(f"the reports have more than {MAX_ENTRIES:,} results together")
        if self.name_characters > MAX_NAME_CHARACTERS:
            raise ReportsTooLarge("the names of the results are too long")
        return True

    def _read_statistics(self, events: Events) -> None:
        for key, first in unique_members(events, *SUMMED):
            if key in SUMMED and _is_summable(first):
                self.sums[key] = self.sums.get(key, 0) + first[1]
            json_stream.skip(first, events)


class Rewriter:
    """Copies a report, but rewrites the results of its profilesets.

    `fields` are the keys of the profilesets' block if the report has none; without them, there is none. `sums` are
    added to the statistics.
    """

    def __init__(
        self, writer: Writer, *, fields: Writer | None = None, sums: Mapping[str, Number] | None = None
    ) -> None:
        self.writer, self.fields, self.sums = writer, fields, sums or {}

    def write(self, events: Events) -> None:
        """Write the report. Raises UnreadableJson and BrokenReport."""
        self.writer.start("{")
        for key, first in unique_members(events, "sim", required=True):
            self.writer.key(key)
            if key == "sim":
                self._write_sim(started(first, events, key))
            else:
                self.writer.copy(first, events)
        self.writer.end("}")

    def write_results(self, events: Events | None) -> None:
        """Write the entries. `events` are those of the report's own entries, which are read, or None."""
        raise NotImplementedError

    def _write_sim(self, events: Events) -> None:
        fields = self.fields
        self.writer.start("{")
        for key, first in unique_members(events, "profilesets", "statistics"):
            self.writer.key(key)
            if key == "profilesets":
                self._write_block(started(first, events, key))
                fields = None
            elif key == "statistics":
                self._write_statistics(started(first, events, key))
            else:
                self.writer.copy(first, events)
        if fields is not None:
            self.writer.key("profilesets")
            self.writer.start("{")
            self.writer.append(fields)
            self._write_list(None)
            self.writer.end("}")
        self.writer.end("}")

    def _write_block(self, events: Events) -> None:
        lacks_results = True
        self.writer.start("{")
        for key, first in unique_members(events, "results"):
            if key == "results":
                self._write_list(started(first, events, key, is_array=True))
                lacks_results = False
            else:
                self.writer.key(key)
                self.writer.copy(first, events)
        if lacks_results:
            self._write_list(None)
        self.writer.end("}")

    def _write_list(self, events: Events | None) -> None:
        self.writer.key("results")
        self.writer.start("[")
        self.write_results(events)
        self.writer.end("]")

    def _write_statistics(self, events: Events) -> None:
        self.writer.start("{")
        for key, first in unique_members(events, *SUMMED):
            self.writer.key(key)
            if key in self.sums and _is_summable(first):
                first = ("number", first[1] + self.sums[key])
            self.writer.copy(first, events)
        self.writer.end("}")


class _Merged(Rewriter):
    """The base's document with the profilesets of the others, and the sums of times and events."""

    def __init__(self, writer: Writer, profilesets: Profilesets) -> None:
        super().__init__(
            writer, fields=profilesets.fields if profilesets.is_present else None, sums=profilesets.sums
        )
        self.results = profilesets.results

    def write_results(self, events: Events | None) -> None:
        if events is not None:
            skip_rest(events)
        self.writer.append(self.results)


def entries(events: Events) -> Iterator[Event]:
    """Yield the first event of each entry of the results that have just begun. Raises BrokenReport.

    The caller must read the rest of the entry before the next one.
    """
    for first in events:
        if first[0] == "end_array":
            return
        if first[0] != "start_map":
            raise BrokenReport("its results is not a list of objects")
        yield first


def skip_rest(events: Events) -> None:
    """Skip the rest of the array that has just begun."""
    json_stream.skip(("start_array", None), events)


def unique_members(events: Events, *unique: str, required: bool = False) -> Iterator[tuple[str, Event]]:
    """Yield the members of an object.

    Raises BrokenReport if one of the keys `unique` is repeated, or if all are missing and one is `required`.
    """
    seen = set()
    for key, first in json_stream.members(events):
        if key in seen:
            raise BrokenReport(f"it contains its {key} twice")
        if key in unique:
            seen.add(key)
        yield key, first
    if required and not seen:
        raise BrokenReport(f"it has no {unique[0]}")


def started(first: Event, events: Events, key: str, *, is_array: bool = False) -> Events:
    """Return the events of an object or array after its start. Raises BrokenReport for another value."""
    if first[0] != ("start_array" if is_array else "start_map"):
        raise BrokenReport(f"its {key} is not {'a list of objects' if is_array else 'an object'}")
    return events


def _is_summable(first: Event) -> bool:
    # Times are for information only, so other values are left out of the sum, not rejected.
    event, value = first
    return event == "number" and bool(-_LARGEST <= value <= _LARGEST)
