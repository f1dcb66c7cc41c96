"""Rankings: profilesets or actors, best first, compared with a baseline, in pages of ROWS.

The first page shows FIRST_ROWS until a reader asks for all.

Filters choose the entries that are shown. Groups are entries whose names share a prefix, such as "Trinket: …".
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.results import names, scale
from dashboard.results.options import ALL, UPGRADES, Options
from jobs.results.rankings import Entry
from jobs.results.verdicts import EVEN, GAIN, LOSS, Compared, percent

ROWS, FIRST_ROWS = 200, 20
TICKS = 4
MAX_GROUPS = 12
LEAST_ENTRIES = 2
# Dots of a group that are closer are drawn as one.
DOT_STEP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRow:
    """One entry. `place` is None for the profile's baseline. `bar` and `whisker` are SVG paths.

    `kind` is relative to the baseline, and empty for the baseline. `difference` is in percent of the baseline.
    """

    place: int | None
    prefix: str
    name: str
    mean: float
    error: float
    kind: str
    difference: float | None
    # The margin of error of the difference, None if it is unknown
    margin: float | None
    is_tied: bool
    stage: int | None
    bar: str
    whisker: str
    # Whether the bar is longer than the axis
    is_cut: bool


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """One page of a ranking.

    `gains`, `even` and `losses` are the numbers of entries that are better than the baseline, not clearly
    different, and worse. `count` is the number of entries without the profile's baseline, `listed` how many of them
    can be shown, and `matching` how many match the filters.
    """

    rows: Sequence[RankedRow]
    # How many comparisons the margins of error cover together
    comparisons: int
    baseline: Entry
    is_own_baseline: bool
    # Whether bars start at the baseline, with an axis in percent, or at zero
    from_baseline: bool
    has_stages: bool
    gains: int
    even: int
    losses: int
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
        """Return the number of rows that the next page adds."""
        return min(ROWS - self.last if self.last < ROWS else ROWS, self.matching - self.last)


def ranking_of(compared: Compared, options: Options, *, count: int, from_baseline: bool) -> Ranking:
    """Return the page of a ranking that the options choose."""
    own, baseline = compared.own, compared.baseline
    matching = _sorted(_matching(compared, options), options)
    start = (min(options.page, -(-len(matching) // ROWS) or 1) - 1) * ROWS
    is_folded = not start and options.rows != ALL
    last = min(start + (FIRST_ROWS if is_folded else ROWS), len(matching))
    part = matching[start:last]
    # Every page shows both baselines.
    pinned = [own] if baseline is own else [own, baseline]
    shown = _sorted([*part, *(entry for entry in pinned if not any(entry is each for each in part))], options)
    axis = _Axis(compared, shown, from_baseline=from_baseline and baseline.mean != 0)
    rows = [_row(entry, compared, axis) for entry in shown]
    gains, even, losses = map(compared.kinds.count, (GAIN, EVEN, LOSS))
    following = options.link(rows=ALL) if is_folded else options.link(page=start // ROWS + 2)
    return Ranking(
        rows=rows,
        comparisons=compared.comparisons,
        baseline=baseline,
        is_own_baseline=baseline is own,
        from_baseline=axis.from_baseline,
        has_stages=compared.has_stages,
        gains=gains,
        even=even,
        losses=losses,
        count=max(count, len(compared.entries)),
        listed=len(compared.entries),
        matching=len(matching),
        first=start + 1,
        last=last,
        axis=axis.ticks,
        grid="".join(f"M{axis.scale.at(tick.value)} 0V34" for tick in axis.ticks),
        zero=f"M{axis.origin} 0V34",
        has_cut_bars=any(row.is_cut for row in rows),
        previous=options.link(page=start // ROWS) if start else "",
        following=following if last < len(matching) else "",
    )


def _matching(compared: Compared, options: Options) -> list[Entry]:
    """Return the entries that match the filters. A search ignores case."""
    text, group = options.search.casefold(), options.group
    return [
        entry
        for entry, kind in zip(compared.entries, compared.kinds, strict=True)
        if (not text or text in entry.name.casefold())
        and (not group or names.prefix_of(entry.name) == group)
        and (options.only != UPGRADES or kind == GAIN)
    ]


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

    def __init__(self, compared: Compared, shown: Sequence[Entry], *, from_baseline: bool) -> None:
        self.from_baseline = from_baseline
        self.value = compared.change if from_baseline else float
        self.scale = scale.around(0.0, list(map(self.interval, shown)))
        self.origin = self.scale.at(0.0)
        self.ticks = self.scale.ticks(TICKS)

    def interval(self, entry: Entry) -> tuple[float, float]:
        """Return the 95 % confidence interval of an entry's mean, in the unit of the axis."""
        return self.value(entry.mean - entry.error), self.value(entry.mean + entry.error)

    def bar(self, entry: Entry) -> str:
        """Return the line from the origin to an entry's mean."""
        end = self.scale.at(self.value(entry.mean))
        return f"M{self.origin} 17H{end}" if end != self.origin else ""

    def whisker(self, entry: Entry) -> str:
        """Return the confidence interval as a line with two caps, without the ends that the axis does not reach."""
        ends = self.interval(entry)
        if not any(map(self.scale.contains, ends)):
            return ""
        low, high = map(self.scale.at, ends)
        caps = "".join(f"M{self.scale.at(end)} 13.5v7" for end in ends if self.scale.contains(end))
        return f"M{low} 17H{high}{caps}"


def _row(entry: Entry, compared: Compared, axis: _Axis) -> RankedRow:
    prefix, name = names.split(entry.name)
    return RankedRow(
        place=entry.number or None,
        prefix=prefix,
        name=name,
        mean=entry.mean,
        error=entry.error,
        kind=compared.kind_of(entry),
        difference=compared.change_of(entry),
        margin=compared.margin_of(entry),
        is_tied=any(entry is each for each in compared.tied),
        stage=entry.stage if compared.has_stages else None,
        bar=axis.bar(entry),
        whisker=axis.whisker(entry),
        is_cut=not axis.scale.contains(axis.value(entry.mean)),
    )


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group, its best entry, and its entries as dots on a line: an SVG path for each kind of difference."""

    name: str
    count: int
    best_name: str
    # Of the best entry, rounded to its margin of error; empty for the baseline
    change: str
    kind: str
    dots: Mapping[str, str]
    best_dot: str
    zero: str
    link: str


def groups_of(compared: Compared, options: Options) -> list[Group]:
    """Return the largest groups as pictures on one axis, the group with the best entry first."""
    by_prefix: dict[str, list[Entry]] = defaultdict(list)
    for entry in compared.entries:
        by_prefix[names.prefix_of(entry.name)].append(entry)
    large = [group for group in by_prefix.items() if group[0] and len(group[1]) >= LEAST_ENTRIES]
    largest = sorted(large, key=lambda group: -len(group[1]))[:MAX_GROUPS]
    if len(largest) < 2:
        return []
    middle = compared.baseline.mean
    axis = scale.around(middle, [(entry.mean, entry.mean) for _, entries in largest for entry in entries])
    return [
        Group(
            name=name,
            count=len(entries),
            best_name=names.split(entries[0].name)[1],
            change=_change(entries[0], compared),
            kind=compared.kind_of(entries[0]),
            dots=_dots(entries, compared.kinds, axis),
            best_dot=f"M{axis.at(entries[0].mean)} 10h0",
            zero=f"M{axis.at(middle)} 0V20",
            link=options.link(group=name),
        )
        for name, entries in sorted(largest, key=lambda group: -group[1][0].mean)
    ]


def _change(entry: Entry, compared: Compared) -> str:
    change = compared.change_of(entry)
    return "" if change is None else percent(change, compared.margin_of(entry))


def _dots(entries: Sequence[Entry], kinds: Sequence[str], axis: scale.Scale) -> dict[str, str]:
    """Return the dots of each kind of difference as zero-length lines with round ends."""
    found: dict[str, set[int]] = defaultdict(set)
    for entry in entries:
        found[kinds[entry.number - 1] or EVEN].add(axis.at(entry.mean) // DOT_STEP * DOT_STEP)
    return {kind: "".join(f"M{at} 10h0" for at in sorted(places)) for kind, places in found.items()}


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The filters of a ranking. `reset` is the link that removes them all and keeps the baseline.

    `shows` and `groups` are links to other parts of the ranking, with the numbers of their entries.
    `by_name` and `by_mean` are columns that sort it, with the link to the next and the current direction.
    """

    shows: Sequence[dict[str, Any]]
    groups: Sequence[dict[str, Any]]
    by_name: Mapping[str, str]
    by_mean: Mapping[str, str]
    own_baseline: str
    reset: str
    are_set: bool
    kept_by_search: Sequence[tuple[str, str]]
    kept_by_baseline: Sequence[tuple[str, str]]


def filters_of(options: Options, ranking: Ranking, groups: Sequence[Group]) -> Filters:
    """Return the filters of a ranking. The link to the current group leads back to all groups."""
    shows = [("All", ranking.listed, ""), ("Only upgrades", ranking.gains, UPGRADES)]
    return Filters(
        shows=[
            {"label": label, "count": count, "link": options.link(only=only), "is_current": options.only == only}
            for label, count, only in shows
        ],
        groups=[
            {
                "label": group.name,
                "count": group.count,
                "link": options.link(group="") if options.group == group.name else group.link,
                "is_current": options.group == group.name,
            }
            for group in groups
        ],
        by_name=_sort(options, name="ascending", **{"-name": "descending"}),
        by_mean=_sort(options, best="descending", worst="ascending"),
        own_baseline=options.link(base=0),
        reset=options.link(search="", only="", group=""),
        are_set=bool(options.search or options.only or options.group),
        kept_by_search=options.without("q", "page"),
        kept_by_baseline=options.without("base"),
    )


def _sort(options: Options, **directions: str) -> dict[str, str]:
    """Return a column whose link sorts by the first of two sorts, or by the second if it does already."""
    first, second = directions
    following = second if options.sort == first else first
    return {"link": options.link(sort=following), "direction": directions.get(options.sort, "")}
