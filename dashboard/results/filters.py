"""Links and fields that choose which part of a ranking is shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.results.groups import Group
from dashboard.results.options import UPGRADES, Options
from dashboard.results.ranking import Ranking


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A link to another part of the ranking, with the number of its entries."""

    label: str
    count: int
    link: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class Sort:
    """A column that sorts the ranking: the link to its next direction, and the current direction."""

    link: str
    direction: str


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The filters of a ranking. `reset` is the link that removes them all and keeps the baseline."""

    shows: Sequence[Choice]
    groups: Sequence[Choice]
    by_name: Sort
    by_mean: Sort
    own_baseline: str
    reset: str
    are_set: bool
    kept_by_search: Sequence[tuple[str, str]]
    kept_by_baseline: Sequence[tuple[str, str]]


def filters_of(options: Options, ranking: Ranking, groups: Sequence[Group]) -> Filters:
    """Return the filters of a ranking."""
    everything = Choice(
        label="All", count=ranking.listed, link=options.link(only=""), is_current=options.only != UPGRADES
    )
    upgrades = Choice(
        label="Only upgrades",
        count=ranking.counts.gains,
        link=options.link(only=UPGRADES),
        is_current=options.only == UPGRADES,
    )
    return Filters(
        shows=[everything, upgrades],
        groups=[_group(group, options) for group in groups],
        by_name=_sort(options, first="name", second="-name", directions=("ascending", "descending")),
        by_mean=_sort(options, first="best", second="worst", directions=("descending", "ascending")),
        own_baseline=options.link(base=0),
        reset=options.link(search="", only="", group=""),
        are_set=bool(options.search or options.only or options.group),
        kept_by_search=options.without("q", "page"),
        kept_by_baseline=options.without("base"),
    )


def _group(group: Group, options: Options) -> Choice:
    """Return the link to a group; that of the current group leads back to all groups."""
    is_current = options.group == group.name
    link = options.link(group="") if is_current else group.link
    return Choice(label=group.name, count=group.count, link=link, is_current=is_current)


def _sort(options: Options, *, first: str, second: str, directions: tuple[str, str]) -> Sort:
    """Return a column whose link sorts by `first`, or by `second` if it does already."""
    current = {first: directions[0], second: directions[1]}.get(options.sort, "")
    return Sort(link=options.link(sort=second if options.sort == first else first), direction=current)
