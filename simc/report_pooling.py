"""Combine the results of profilesets that a stage ran twice.

Both results must already have the name of the profileset. The figures of the main metric are in the result itself
or come first in its `metrics`; those of other metrics are in `additional_metrics`.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, BinaryIO

from simc import json_stream, report_values
from simc.json_stream import DONE, WHOLE, Event, Shape, UnreadableJson
from simc.report_merge import Events, Rewriter, Writer, entries, limited, rewrite
from simc.report_reader import metric_of
from simc.reports import BrokenReport, Statistics, combined, fights_of

# More metrics than the simulator has
MAX_METRICS = 20
LISTS = ("metrics", "additional_metrics")
# They cannot be computed exactly from those of both runs, but lie between them.
QUARTILES = ("median", "first_quartile", "third_quartile")
_BLOCK: dict[str, Shape] = dict.fromkeys(
    ("mean", "mean_stddev", "stddev", "min", "max", "mean_error", "iterations", *QUARTILES)
)

Block = Mapping[str, Any]
Figures = Mapping[str, Decimal | int]


def pool(report: BinaryIO, target: BinaryIO, *, names: Container[str], max_bytes: int) -> None:
    """Write a report to `target` in which each of the profilesets `names` has one result instead of two.

    It has the figures of the fights of both runs, as `simc.reports.combined` computes them, and the place of the
    first result. If only one run has a result, it is kept. The report is read twice, as a stream, and may have
    `max_bytes`. Memory: 10 MB, and at most 80 KB for each name. Raises BrokenReport.
    """
    found = _read(report, names=names, max_bytes=max_bytes)
    report.seek(0)
    rewrite(report, _Pooled(limited(target, max_bytes), found.values()), max_bytes=max_bytes)


def _read(report: BinaryIO, *, names: Container[str], max_bytes: int) -> Mapping[str, Sequence["_Run"]]:
    """Return the first two results of each name."""
    shape = {"sim": {"profilesets": {"results": partial(_Runs, names)}}}
    try:
        document = json_stream.read(report, shape, max_bytes=max_bytes)
    except UnreadableJson as error:
        raise BrokenReport(str(error)) from None
    block = report_values.mapping(report_values.mapping(document.get("sim")).get("profilesets"))
    return getattr(block.get("results"), "runs", {})


@dataclass(frozen=True)
class _Run:
    """A result: its place among the results, its own figures, and those in its lists."""

    index: int
    own: Block
    lists: Mapping[str, Sequence[Block]]

    @property
    def main(self) -> Statistics:
        """Return the figures of the main metric. Raises BrokenReport."""
        return metric_of(next(iter(self.lists["metrics"]), self.own))


@dataclass(frozen=True)
class _Change:
    """The figures to replace in a result."""

    own: Figures
    lists: Mapping[str, Sequence[Figures]]


class _Metrics:
    """A list of metrics of a result."""

    def __init__(self) -> None:
        self.kept: list[Block] = []

    @property
    def shape(self) -> Shape:
        return DONE if len(self.kept) == MAX_METRICS else _BLOCK

    def take(self, entry: Any) -> None:
        self.kept.append(report_values.mapping(entry))


@dataclass
class _Runs:
    """Collects the first two results of each name."""

    names: Container[str]
    runs: dict[str, list[_Run]] = field(default_factory=dict)
    taken: int = 0
    shape: Shape = field(default_factory=lambda: {"name": WHOLE, **_BLOCK, **dict.fromkeys(LISTS, _Metrics)})

    def take(self, entry: Any) -> None:
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and name in self.names:
            lists = {key: getattr(entry.pop(key, None), "kept", []) for key in LISTS}
            self.runs.setdefault(name, []).append(_Run(self.taken, entry, lists))
            del self.runs[name][2:]
        self.taken += 1


def _change_of(first: _Run, second: _Run) -> _Change:
    """Return the figures of both runs. Raises BrokenReport."""
    return _Change(
        own=_figures_of(first.own, second.own),
        lists={key: list(map(_figures_of, first.lists[key], second.lists[key])) for key in LISTS},
    )


def _figures_of(first: Block, second: Block) -> Figures:
    """Return the figures of one metric from those of both runs; none if the number of fights is unknown."""
    statistics = [metric_of(block) for block in (first, second)]
    both = combined(*statistics)
    if both is statistics[0]:
        return {}
    fights = [fights_of(each.stddev, each.mean_stddev) for each in statistics]
    figures: dict[str, float | int] = asdict(both)
    for key in QUARTILES:
        values = [report_values.number(block.get(key)) for block in (first, second)]
        if None not in values:
            weighted = (share * (value or 0.0) for share, value in zip(fights, values, strict=True))
            figures[key] = sum(weighted) / sum(fights)
    if (error := report_values.number(first.get("mean_error"))) is not None:
        figures["mean_error"] = error * both.mean_stddev / statistics[0].mean_stddev
    counts = [each for each in (first.get("iterations"), second.get("iterations")) if type(each) is int]
    if len(counts) == len(statistics):
        figures["iterations"] = sum(counts)
    return {key: _number(value) for key, value in figures.items() if key in first}


def _number(value: float) -> Decimal | int:
    """Return a number with all digits that the float needs."""
    return value if isinstance(value, int) else Decimal(repr(value))


class _Pooled(Rewriter):
    """The report with one result for each pair of runs."""

    def __init__(self, writer: Writer, pairs: Iterable[Sequence[_Run]]) -> None:
        super().__init__(writer)
        self.changes: dict[int, _Change] = {}
        self.dropped: set[int] = set()
        for first, second in (pair for pair in pairs if len(pair) > 1):
            # A mean of 0 is no result: one layout lists failed profilesets with zeros.
            has_first = bool(first.main.mean)
            self.dropped.add(second.index if has_first else first.index)
            if has_first and second.main.mean:
                self.changes[first.index] = _change_of(first, second)

    def write_results(self, events: Events | None) -> None:
        if events is None:
            return
        for index, first in enumerate(entries(events)):
            if index in self.dropped:
                json_stream.skip(first, events)
            elif index in self.changes:
                self._write_entry(events, self.changes[index])
            else:
                self.writer.copy(first, events)

    def _write_entry(self, events: Events, change: _Change) -> None:
        self.writer.start("{")
        for key, first in json_stream.members(events):
            self.writer.key(key)
            if key in change.lists and first[0] == "start_array":
                self._write_metrics(events, change.lists[key])
            else:
                self._write_value(first, events, change.own.get(key))
        self.writer.end("}")

    def _write_metrics(self, events: Events, changes: Sequence[Figures]) -> None:
        self.writer.start("[")
        for index, first in enumerate(events):
            if first[0] == "end_array":
                break
            if first[0] == "start_map" and index < len(changes):
                self._write_metric(events, changes[index])
            else:
                self.writer.copy(first, events)
        self.writer.end("]")

    def _write_metric(self, events: Events, figures: Figures) -> None:
        self.writer.start("{")
        for key, first in json_stream.members(events):
            self.writer.key(key)
            self._write_value(first, events, figures.get(key))
        self.writer.end("}")

    def _write_value(self, first: Event, events: Events, figure: Decimal | int | None) -> None:
        """Write a figure instead of a value, or the value itself."""
        if figure is not None:
            json_stream.skip(first, events)
            first = ("number", figure)
        self.writer.copy(first, events)
