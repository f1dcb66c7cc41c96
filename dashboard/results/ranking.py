"""Rankings: profilesets or actors, best first, compared with a baseline, in pages of ROWS."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboard.results import names, scale
from dashboard.results.baseline import EVEN, GAIN, LOSS, Baseline, Compared, interval
from dashboard.results.options import UPGRADES, Options
from jobs.results.rankings import Entry

ROWS = 200
TICKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry. `place` is None for the profile's baseline. `bar` and `whisker` are SVG paths."""

    place: int | None
    prefix: str
    name: str
    mean: float
    error: float
    stage: int | None
    kind: str
    """GAIN, LOSS or EVEN, relative to the baseline; empty for the baseline."""
    difference: float | None
    """In percent of the baseline."""
    bar: str
    whisker: str
    is_cut: bool
    """Whether the bar is longer than the axis."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many entries are better, not clearly different, and worse than the baseline."""

    gains: int
    even: int
    losses: int


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """One page of a ranking.

    `count` is the number of entries without the profile's baseline, `listed` how many of them can be shown, and
    `matching` how many match the filters.
    """

    rows: Sequence[Row]
    baseline: Entry
    is_own_baseline: bool
    from_baseline: bool
    """Whether bars start at the baseline, with an axis in percent, or at zero."""
    counts: Counts
    count: int
    listed: int
    matching: int
    first: int
    last: int
    axis: Sequence[scale.Tick]
    grid: str
    zero: str
    has_cut_bars: bool
    previous: str
    following: str

    @property
    def following_count(self) -> int:
        """Return the number of rows on the next page."""
        return min(ROWS, self.matching - self.last)


def ranking_of(compared: Compared, options: Options, *, count: int, from_baseline: bool) -> Ranking:
    """Return the page of a ranking that the options choose."""
    own, baseline, kinds = compared.own, compared.baseline, compared.kinds
    matching = _sorted(_matching(compared, options), options)
    start = (min(options.page, -(-len(matching) // ROWS) or 1) - 1) * ROWS
    part = matching[start : start + ROWS]
    shown = _sorted([*part, *_pinned(part, baseline, own)], options)
    axis = _Axis(baseline, shown, from_baseline=from_baseline and baseline.entry.mean != 0)
    last = min(start + ROWS, len(matching))
    rows = [_row(entry, baseline, axis) for entry in shown]
    return Ranking(
        rows=rows,
        baseline=baseline.entry,
        is_own_baseline=baseline.entry is own,
        from_baseline=axis.from_baseline,
        counts=Counts(gains=kinds.count(GAIN), even=kinds.count(EVEN), losses=kinds.count(LOSS)),
        count=max(count, len(compared.entries)),
        listed=len(compared.entries),
        matching=len(matching),
        first=start + 1,
        last=last,
        axis=axis.ticks,
        grid=axis.grid,
        zero=f"M{axis.origin} 0V34",
        has_cut_bars=any(row.is_cut for row in rows),
        previous=options.link(page=start // ROWS) if start else "",
        following=options.link(page=start // ROWS + 2) if last < len(matching) else "",
    )


def _matching(compared: Compared, options: Options) -> list[Entry]:
    """Return the entries that the filters leave. A search ignores case."""
    text, group = options.search.casefold(), options.group
    return [
        entry
        for entry, kind in zip(compared.entries, compared.kinds, strict=True)
        if (not text or text in entry.name.casefold())
        and (not group or names.prefix_of(entry.name) == group)
        and (options.only != UPGRADES or kind == GAIN)
    ]


def _pinned(shown: Sequence[Entry], baseline: Baseline, own: Entry) -> list[Entry]:
    """Return the baselines that every page shows, without those it shows anyway."""
    pinned = [own] if baseline.entry is own else [own, baseline.entry]
    return [entry for entry in pinned if not any(entry is each for each in shown)]


SORT_KEYS: dict[str, Callable[[Entry], tuple[float, int] | tuple[str, int]]] = {
    "best": lambda entry: (-entry.mean, entry.number),
    "worst": lambda entry: (entry.mean, -entry.number),
    "name": lambda entry: (entry.name.casefold(), entry.number),
    "-name": lambda entry: (entry.name.casefold(), entry.number),
}


def _sorted(entries: Sequence[Entry], options: Options) -> list[Entry]:
    return sorted(entries, key=SORT_KEYS[options.sort], reverse=options.sort == "-name")


class _Axis:
    """The axis of the rows shown, in percent of the baseline, or in the metric's unit from zero."""

    def __init__(self, baseline: Baseline, shown: Sequence[Entry], *, from_baseline: bool) -> None:
        self.from_baseline = from_baseline
        self.value = baseline.change if from_baseline else float
        self.scale = scale.around(0.0, [(self.value(low), self.value(high)) for low, high in map(interval, shown)])
        self.origin = self.scale.at(0.0)
        self.ticks = self.scale.ticks(TICKS)
        self.grid = "".join(f"M{self.scale.at(tick.value)} 0V34" for tick in self.ticks)

    def bar(self, entry: Entry) -> str:
        """Return the line from the origin to an entry's mean."""
        end = self.scale.at(self.value(entry.mean))
        return f"M{self.origin} 17H{end}" if end != self.origin else ""

    def whisker(self, entry: Entry) -> str:
        """Return the confidence interval as a line with two caps, without the ends that the axis does not reach."""
        ends = [self.value(end) for end in interval(entry)]
        if not any(map(self.scale.contains, ends)):
            return ""
        low, high = map(self.scale.at, ends)
        caps = "".join(f"M{self.scale.at(end)} 13.5v7" for end in ends if self.scale.contains(end))
        return f"M{low} 17H{high}{caps}"

    def cuts(self, entry: Entry) -> bool:
        """Return whether the axis ends before an entry's mean."""
        return not self.scale.contains(self.value(entry.mean))


def _row(entry: Entry, baseline: Baseline, axis: _Axis) -> Row:
    prefix, name = names.split(entry.name)
    return Row(
        place=entry.number or None,
        prefix=prefix,
        name=name,
        mean=entry.mean,
        error=entry.error,
        stage=entry.stage,
        kind=baseline.kind_of(entry),
        difference=baseline.change_of(entry),
        bar=axis.bar(entry),
        whisker=axis.whisker(entry),
        is_cut=axis.cuts(entry),
    )
