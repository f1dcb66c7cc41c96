"""Groups of profilesets whose names share a prefix, for example "Trinket: …"."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dashboard.results import names, scale
from dashboard.results.baseline import EVEN, Compared
from jobs.results.rankings import Entry

MAX_GROUPS = 12
LEAST_ENTRIES = 2
# Dots that are closer are drawn as one.
DOT_STEP = 10


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group, its best entry, and its entries as dots on a line: an SVG path for each kind of difference."""

    name: str
    count: int
    best_name: str
    difference: float | None
    kind: str
    dots: Mapping[str, str]
    best_dot: str
    zero: str
    link: str


def groups_of(entries: Sequence[Entry]) -> list[tuple[str, list[Entry]]]:
    """Return the largest groups with their entries, the group with the best entry first. Entries are best first."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        found[names.prefix_of(entry.name)].append(entry)
    found.pop("", None)
    large = [group for group in found.items() if len(group[1]) >= LEAST_ENTRIES]
    largest = sorted(large, key=lambda group: -len(group[1]))[:MAX_GROUPS]
    return sorted(largest, key=lambda group: -group[1][0].mean) if len(largest) > 1 else []


def pictures(compared: Compared, *, link: Callable[[str], str]) -> list[Group]:
    """Return the groups of entries as pictures on one axis."""
    grouped, baseline = groups_of(compared.entries), compared.baseline
    middle = baseline.entry.mean
    axis = scale.around(middle, [(entry.mean, entry.mean) for _, entries in grouped for entry in entries])
    return [
        Group(
            name=name,
            count=len(entries),
            best_name=names.split(entries[0].name)[1],
            difference=baseline.change_of(entries[0]),
            kind=baseline.kind_of(entries[0]),
            dots=_dots(entries, compared.kinds, axis),
            best_dot=f"M{axis.at(entries[0].mean)} 10h0",
            zero=f"M{axis.at(middle)} 0V20",
            link=link(name),
        )
        for name, entries in grouped
    ]


def _dots(entries: Sequence[Entry], kinds: Sequence[str], axis: scale.Scale) -> dict[str, str]:
    """Return the dots of each kind of difference as zero-length lines with round ends."""
    found: dict[str, set[int]] = defaultdict(set)
    for entry in entries:
        found[kinds[entry.number - 1] or EVEN].add(axis.at(entry.mean) // DOT_STEP * DOT_STEP)
    return {kind: "".join(f"M{at} 10h0" for at in sorted(places)) for kind, places in found.items()}
