"""Differences between two profiles, line by line.

Lines that occur once in both profiles align them, so the time grows only with the profiles' length, whatever they
contain. Comments and empty lines are ignored, as the simulator ignores them.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, chain, pairwise, starmap, takewhile, zip_longest
from operator import eq, lt
from typing import NamedTuple

from simc.profiles.grammar import BOM

MAX_CHARACTERS = 1 << 20
MAX_LINES = 20_000
# When this many changed lines are listed, further changes are only counted.
MAX_LISTED = 120
MAX_LISTED_OF_CHANGE = 30
CONTEXT_LINES = 2
# How often the lines between aligned lines are aligned again
_ROUNDS = 4
# With fewer lines, equal ones are at the beginning or the end.
_LEAST_ALIGNED = 4
_SHOWN_CHARACTERS = 200
_SHOWN_AROUND_CHANGE = 60
# Differences beyond this place of a line are not marked.
_COMPARED_CHARACTERS = 1000
# Characters that change the direction of text would hide what a line says.
_DIRECTIONS = str.maketrans(
    dict.fromkeys("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", "\ufffd")
)


class Kind(StrEnum):
    """What happened to a line from the old profile to the new one."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line in three parts, cut if it is long. `changed` is what differs from the line that it replaces.

    Characters that change the direction of text are replaced. `number` counts from 1 in the new profile, for a
    removed line in the old one.
    """

    kind: Kind
    number: int
    before: str
    changed: str = ""
    after: str = ""


@dataclass(frozen=True, kw_only=True)
class Diff:
    """Groups of changed lines with their context, and how many lines changed in total.

    `is_cut` says that a profile was not compared to its end.
    """

    groups: Sequence[Sequence[DiffLine]]
    removed: int
    added: int
    unlisted: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a profile that the simulator reads, with their numbers.

    `is_cut` says that the profile has more lines or characters than are compared.
    """

    texts: Sequence[str]
    numbers: Sequence[int]
    is_cut: bool

    @classmethod
    def of(cls, text: str) -> "Lines":
        """Return the lines of a profile, without comments and empty lines."""
        lines = text[:MAX_CHARACTERS].removeprefix(BOM).split("\n", MAX_LINES)
        is_cut = len(text) > MAX_CHARACTERS or len(lines) > MAX_LINES
        stripped = [line.strip() for line in lines[:MAX_LINES]]
        numbers = [number for number, line in enumerate(stripped, 1) if line and line[0] != "#"]
        return cls([stripped[number - 1] for number in numbers], numbers, is_cut)


class _Change(NamedTuple):
    """The lines `start:stop` of the old profile, which become `new_start:new_stop` of the new one."""

    start: int
    stop: int
    new_start: int
    new_stop: int

    @property
    def removed(self) -> int:
        return self.stop - self.start

    @property
    def added(self) -> int:
        return self.new_stop - self.new_start

    @property
    def listed(self) -> int:
        return min(self.removed, MAX_LISTED_OF_CHANGE) + min(self.added, MAX_LISTED_OF_CHANGE)


def compare(old: Lines, new: Lines, *, max_listed: int = MAX_LISTED) -> Diff:
    """Return the differences between two profiles."""
    everything = _Change(0, len(old.texts), 0, len(new.texts))
    changes = list(_changes(old.texts, new.texts, everything, rounds=_ROUNDS))
    before = accumulate((change.listed for change in changes), initial=0)
    listed = [change for change, count in zip(changes, before, strict=False) if count < max_listed]
    removed, added = sum(change.removed for change in changes), sum(change.added for change in changes)
    return Diff(
        groups=[list(_group(group, old, new)) for group in _grouped(listed)],
        removed=removed,
        added=added,
        unlisted=removed + added - sum(change.listed for change in listed),
        is_cut=old.is_cut or new.is_cut,
    )


def _changes(old: Sequence[str], new: Sequence[str], part: _Change, *, rounds: int) -> Iterator[_Change]:
    part = _trimmed(old, new, part)
    if not part.removed or not part.added or not rounds or part.removed + part.added < _LEAST_ALIGNED:
        yield from [part] if part.removed or part.added else []
        return
    start, _, new_start, _ = part
    # The most lines that occur once on both sides, in the same order, as pairs of their places
    own, places = _single(old, part.start, part.stop), _single(new, part.new_start, part.new_stop)
    aligned = _longest_increasing([(place, places[line]) for line, place in own.items() if line in places])
    for stop, new_stop in [*aligned, (part.stop, part.new_stop)]:
        if stop > start or new_stop > new_start:
            yield from _changes(old, new, _Change(start, stop, new_start, new_stop), rounds=rounds - 1)
        start, new_start = stop + 1, new_stop + 1


def _trimmed(old: Sequence[str], new: Sequence[str], part: _Change) -> _Change:
    """Return a part without the equal lines at its beginning and end."""
    start, stop, new_start, new_stop = part
    while start < stop and new_start < new_stop and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < stop and new_start < new_stop and old[stop - 1] == new[new_stop - 1]:
        stop, new_stop = stop - 1, new_stop - 1
    return _Change(start, stop, new_start, new_stop)


def _single(lines: Sequence[str], start: int, stop: int) -> dict[str, int]:
    part = lines[start:stop]
    places = dict(zip(part, range(start, stop), strict=True))
    if len(places) == len(part):
        return places
    counts = Counter(part)
    return {line: place for line, place in places.items() if counts[line] == 1}


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest series of pairs whose second numbers increase, as the first ones do already."""
    if all(starmap(lt, pairwise(place for _, place in pairs))):
        return list(pairs)
    # For each length of a series, the lowest number that ends one, and the index of its pair
    lowest: list[int] = []
    ends: list[int] = []
    previous: list[int | None] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(lowest, place)
        previous.append(ends[length - 1] if length else None)
        lowest[length : length + 1] = [place]
        ends[length : length + 1] = [index]
    series = []
    index_of_end = ends[-1] if ends else None
    while index_of_end is not None:
        series.append(pairs[index_of_end])
        index_of_end = previous[index_of_end]
    return series[::-1]


def _grouped(changes: Iterable[_Change]) -> list[list[_Change]]:
    groups: list[list[_Change]] = []
    for change in changes:
        if groups and change.new_start - groups[-1][-1].new_stop <= 2 * CONTEXT_LINES:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _group(changes: Sequence[_Change], old: Lines, new: Lines) -> Iterator[DiffLine]:
    """Yield the lines of a group, with the lines before, between and after its changes."""
    place = max(changes[0].new_start - CONTEXT_LINES, 0)
    for change in changes:
        yield from _context(new, place, change.new_start)
        yield from _listed(change, old, new)
        place = change.new_stop
    yield from _context(new, place, min(place + CONTEXT_LINES, len(new.texts)))


def _context(lines: Lines, start: int, stop: int) -> Iterator[DiffLine]:
    for place in range(start, stop):
        yield DiffLine(Kind.SAME, lines.numbers[place], _cut(lines.texts[place], _SHOWN_CHARACTERS))


def _listed(change: _Change, old: Lines, new: Lines) -> Iterator[DiffLine]:
    """Return the first lines of a change: in pairs if they set the same options, else the removed ones first."""
    removed = range(change.start, change.stop)[:MAX_LISTED_OF_CHANGE]
    added = range(change.new_start, change.new_stop)[:MAX_LISTED_OF_CHANGE]
    pairs = list(zip_longest((old.texts[place] for place in removed), (new.texts[place] for place in added)))
    gone = [
        _marked(Kind.REMOVED, old.numbers[place], text, other)
        for place, (text, other) in zip(removed, pairs, strict=False)
    ]
    come = [
        _marked(Kind.ADDED, new.numbers[place], text, other)
        for place, (other, text) in zip(added, pairs, strict=False)
    ]
    is_paired = all(_set_same(text, other) for text, other in pairs)
    return chain.from_iterable(zip(gone, come, strict=True)) if is_paired else chain(gone, come)


def _set_same(text: str | None, other: str | None) -> bool:
    return text is not None and other is not None and text.partition("=")[0] == other.partition("=")[0]


def _marked(kind: Kind, number: int, text: str, other: str | None) -> DiffLine:
    """Return a changed line, with the difference marked if the other line sets the same option."""
    if other is None or not _set_same(text, other):
        return DiffLine(kind, number, _cut(text, _SHOWN_CHARACTERS))
    start = _equal(text, other)
    stop = len(text) - _equal(text[start:][::-1], other[start:][::-1])
    cut = max(start - _SHOWN_AROUND_CHANGE, 0)
    before = ("…" if cut else "") + _cut(text[cut:start], _SHOWN_AROUND_CHANGE)
    changed, after = _cut(text[start:stop], _SHOWN_CHARACTERS), _cut(text[stop:], _SHOWN_AROUND_CHANGE)
    return DiffLine(kind, number, before, changed, after)


def _equal(text: str, other: str) -> int:
    """Return how many characters at the beginning of two texts are equal, at most _COMPARED_CHARACTERS."""
    limit = _COMPARED_CHARACTERS
    return sum(1 for _ in takewhile(bool, map(eq, text[:limit], other[:limit])))


def _cut(text: str, length: int) -> str:
    return (text if len(text) <= length else f"{text[:length]}…").translate(_DIRECTIONS)
