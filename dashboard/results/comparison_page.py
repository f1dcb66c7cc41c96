"""A comparison of jobs as its page shows it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from dashboard.results import actor, names
from dashboard.results.actor import Item, Who
from dashboard.results.baseline import EVEN, GAIN, LOSS
from dashboard.results.page import METRICS
from dashboard.results.scale import Scale
from dashboard.results.strip import Figures, Strip, strips
from jobs.results.comparison import differences, labels
from jobs.results.comparison.differences import AbilityRow, Change, Comparison, Option, Row
from jobs.results.comparison.sides import Side
from simc.profiles.diff import Diff

LETTERS = "ABCD"
MIN_JOBS = 2
OPEN_ABILITIES = 20


class Entry(NamedTuple):
    """A job in an address and on the page. `link` is empty for the expired job of a share link."""

    key: str
    title: str
    link: str


@dataclass(frozen=True, kw_only=True)
class Column:
    """A job of the comparison, called by its letter. `note` says why it has no figures, or is empty.

    `as_first` and `without` are the addresses of the comparison with this job first, and without it; each may be
    empty.
    """

    letter: str
    title: str
    link: str
    side: Side
    who: Who
    note: str
    metric: str
    figures: Figures | None
    strip: Strip | None
    change: Change | None
    kind: str
    is_first: bool
    profile: Diff | None
    as_first: str
    without: str


@dataclass(frozen=True, kw_only=True)
class TextCell:
    """A text of a job, None if it is unknown. `is_same` says that the first job has the same one."""

    letter: str
    text: str | None
    is_same: bool = False


@dataclass(frozen=True, kw_only=True)
class ItemCell:
    """An item of a job, None if it is unknown. `is_same` says that the first job has the same one."""

    letter: str
    item: Item | None
    is_same: bool


@dataclass(frozen=True, kw_only=True)
class AbilityCell:
    """The DPS of an ability in a job, and its difference from the first job; each may be None.

    The difference is a bar at `start` with `width`, in percent; zero is in the middle.
    """

    letter: str
    dps: float | None
    difference: float | None
    kind: str
    start: str
    width: str


@dataclass(frozen=True, kw_only=True)
class AbilityLine:
    """An ability with a cell for each job."""

    name: str
    is_pet: bool
    cells: Sequence[AbilityCell]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A comparison as its page shows it. `first` is the column that the others are compared with."""

    columns: Sequence[Column]
    first: Column | None
    changed_options: Sequence[tuple[str, Sequence[TextCell]]]
    equal_options: Sequence[tuple[str, str]]
    changed_gear: Sequence[tuple[str, Sequence[ItemCell]]]
    equal_slots: Sequence[str]
    has_talents: bool
    talents: Sequence[TextCell]
    """Empty if they are the same."""
    abilities: Sequence[AbilityLine]
    folded_abilities: Sequence[AbilityLine]

    @property
    def others(self) -> Sequence[Column]:
        """Return the columns with a result that are compared with the first one."""
        return [column for column in self.columns if column.figures and not column.is_first]


def page_of(sides: Sequence[Side], entries: Sequence[Entry], *, name: str) -> Page | None:
    """Return a comparison for its page, None without sides. `name` is the parameter of its address. No query."""
    if not sides:
        return None
    found = differences.compare(sides)
    columns = _columns(found, entries, name=name)
    largest = max((row.largest for row in found.abilities), default=0.0)
    abilities = [_ability_line(row, largest) for row in found.abilities]
    return Page(
        columns=columns,
        first=None if found.first is None else columns[found.first],
        changed_options=[(_label(row), _text_cells(row)) for row in found.options if row.differs],
        equal_options=[(_label(row), _common_text(row)) for row in found.options if not row.differs],
        changed_gear=[
            (names.slot_of(row.name), _item_cells(row, found.first)) for row in found.gear if row.differs
        ],
        equal_slots=[names.slot_of(row.name) for row in found.gear if not row.differs],
        has_talents=found.talents is not None,
        talents=_talent_cells(found.talents, found.first) if found.talents and found.talents.differs else [],
        abilities=abilities[:OPEN_ABILITIES],
        folded_abilities=abilities[OPEN_ABILITIES:],
    )


def _columns(found: Comparison, entries: Sequence[Entry], *, name: str) -> list[Column]:
    figures = [_figures(side) for side in found.sides]
    known = iter(strips([each for each in figures if each])) if any(figures) else iter(())
    pictures = [next(known) if each else None for each in figures]
    return [
        _column(found, place, entries, figures=figures[place], strip=pictures[place], name=name)
        for place in range(len(entries))
    ]


def _figures(side: Side) -> Figures | None:
    figure = side.figure
    if figure is None:
        return None
    return Figures(mean=figure.mean, error=figure.error, low=figure.low, high=figure.high, median=figure.median)


def _column(
    found: Comparison,
    place: int,
    entries: Sequence[Entry],
    *,
    figures: Figures | None,
    strip: Strip | None,
    name: str,
) -> Column:
    side, entry = found.sides[place], entries[place]
    others = [each.key for each in entries if each is not entry]
    return Column(
        letter=LETTERS[place],
        title=entry.title,
        link=entry.link,
        side=side,
        who=actor.who_of(side.character),
        note=labels.MISSING[side.missing] if side.missing else "",
        metric=METRICS.get(side.figure.metric, "DPS") if side.figure else "",
        figures=figures,
        strip=strip,
        change=found.changes[place],
        kind=_kind(found.changes[place]),
        is_first=place == found.first,
        profile=found.profiles[place],
        as_first=query_of(name, [entry.key, *others]) if figures and place != found.first else "",
        without=query_of(name, others) if len(others) >= MIN_JOBS else "",
    )


def _kind(change: Change | None) -> str:
    if change is None:
        return ""
    if not change.is_clear:
        return EVEN
    return GAIN if change.difference > 0 else LOSS


def _item_cells(row: Row, first: int | None) -> list[ItemCell]:
    own = None if first is None else row.values[first]
    return [
        _item_cell(item, letter=letter, own=None if item is own else own)
        for letter, item in zip(LETTERS, row.values, strict=False)
    ]


def _item_cell(item: Mapping[str, Any] | None, *, letter: str, own: Mapping[str, Any] | None) -> ItemCell:
    """Return an item, compared with `own`, the item of the first job."""
    is_same = bool(own and item) and differences.identity(own or {}) == differences.identity(item or {})
    return ItemCell(letter=letter, item=None if item is None else actor.item_of(item), is_same=is_same)


def _talent_cells(row: Row, first: int | None) -> list[TextCell]:
    own = None if first is None else row.values[first]
    return [
        TextCell(letter=letter, text=text, is_same=place != first and text == own)
        for place, (letter, text) in enumerate(zip(LETTERS, row.values, strict=False))
    ]


def _ability_line(row: AbilityRow, largest: float) -> AbilityLine:
    axis = Scale(low=-largest, high=largest)
    return AbilityLine(
        name=names.titled(row.name) or "Unnamed ability",
        is_pet=row.is_pet,
        cells=[
            _ability_cell(axis, letter=letter, dps=dps, difference=difference)
            for letter, dps, difference in zip(LETTERS, row.values, row.differences, strict=False)
        ],
    )


def _ability_cell(axis: Scale, *, letter: str, dps: float | None, difference: float | None) -> AbilityCell:
    start, end = sorted([axis.at(0.0), axis.at(difference or 0.0)])
    return AbilityCell(
        letter=letter,
        dps=dps,
        difference=difference,
        kind=_direction(difference),
        start=f"{start / 10:g}%",
        width=f"{(end - start) / 10:g}%",
    )


def _direction(difference: float | None) -> str:
    """Return the kind of a difference; one that is shown as zero is even."""
    if difference is None:
        return ""
    return EVEN if not round(difference) else GAIN if difference > 0 else LOSS


def query_of(name: str, keys: Iterable[str]) -> str:
    """Return the query string of a comparison."""
    return f"?{urlencode([(name, key) for key in keys])}"


def _label(row: Row) -> str:
    return labels.OPTIONS[Option(row.name)]


def _text_cells(row: Row) -> list[TextCell]:
    return [
        TextCell(letter=letter, text=None if value is None else _text(row.name, value))
        for letter, value in zip(LETTERS, row.values, strict=False)
    ]


def _common_text(row: Row) -> str:
    return next(_text(row.name, value) for value in row.values if value is not None)


def _text(option: str, value: Any) -> str:
    """Return the value of an option as a text."""
    match option:
        case Option.LENGTH:
            return f"{int(value) // 60}:{int(value) % 60:02}"
        case Option.VARIATION:
            return f"± {value * 100:g} %"
        case Option.TARGET_ERROR:
            return f"{value:g} %" if value else "None"
        case Option.STAGES:
            return "Yes" if value else "No"
    return value if isinstance(value, str) else f"{value:,}"
