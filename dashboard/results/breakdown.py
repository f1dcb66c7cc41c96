"""The breakdown of an actor's damage by ability."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dashboard.results import names
from dashboard.results.options import Options
from jobs.results.details import Ability

OPEN_ROWS = 20
# Abilities, and parts of all of them: more than actors have. They keep pages small, whatever a report contains.
MAX_ROWS, MAX_PARTS = 50, 60
BRIEF_ROWS = 6
# The columns after the name and the share: the sort, the heading, and what it means
COLUMNS = (
    ("dps", "DPS", "Damage per second"),
    ("executes", "Uses", "Mean number of uses per fight"),
    ("hits", "Hits", "Mean number of hits and ticks per fight"),
    ("average", "Average", "Mean damage of a hit or tick"),
    ("crit", "Crit", "Share of the hits and ticks that are critical"),
)


@dataclass(frozen=True, kw_only=True)
class AbilityRow:
    """An ability, or a pet with its abilities as `parts`. `width` is relative to the largest share."""

    name: str
    school: str
    school_name: str
    is_pet: bool
    share: float | None
    width: str
    dps: float | None
    executes: float | None
    hits: float | None
    average: float | None
    crit: float | None
    parts: "Sequence[AbilityRow]"


@dataclass(frozen=True, kw_only=True)
class Heading:
    """A column's heading: its label and explanation, the link that sorts by it, and the current direction."""

    label: str
    title: str
    link: str
    direction: str


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """The abilities of an actor, first those that are shown at once, then the folded ones."""

    rows: Sequence[AbilityRow]
    folded: Sequence[AbilityRow]
    headings: Sequence[Heading]
    count: int
    left_out: int
    covered: float
    """The part of the damage that the rows explain."""

    @property
    def brief(self) -> Sequence[AbilityRow]:
        """Return the abilities with the largest shares."""
        return sorted([*self.rows, *self.folded], key=lambda row: -(row.share or 0))[:BRIEF_ROWS]


def breakdown_of(abilities: Sequence[Ability], options: Options) -> Breakdown | None:
    """Return the breakdown, or None without abilities."""
    if not abilities:
        return None
    largest = max((ability.share or 0.0 for ability in abilities), default=0.0)
    rows = list(_rows(_sorted(abilities, options)[:MAX_ROWS], largest, options))
    return Breakdown(
        rows=rows[:OPEN_ROWS],
        folded=rows[OPEN_ROWS:],
        headings=_headings(options),
        count=len(abilities),
        left_out=len(abilities) - len(rows),
        covered=sum(ability.share or 0.0 for ability in abilities),
    )


def _headings(options: Options) -> list[Heading]:
    columns = (("name", "Ability", ""), ("share", "Share", "Share of the actor's damage"), *COLUMNS)
    return [
        Heading(
            label=label,
            title=title,
            link=options.link(by=key),
            direction=("ascending" if key == "name" else "descending") if options.by == key else "",
        )
        for key, label, title in columns
    ]


def _sorted(abilities: Sequence[Ability], options: Options) -> list[Ability]:
    """Return abilities by the chosen column: names from A, numbers from the largest, unknown ones last."""
    if options.by == "name":
        return sorted(abilities, key=lambda ability: ability.name.casefold())
    field = "crit_percent" if options.by == "crit" else options.by
    return sorted(abilities, key=lambda ability: -_or_lowest(getattr(ability, field)))


def _or_lowest(value: float | None) -> float:
    return -math.inf if value is None else value


def _rows(abilities: Iterable[Ability], largest: float, options: Options) -> Iterator[AbilityRow]:
    """Yield the rows of abilities, with MAX_PARTS parts in all."""
    left = MAX_PARTS
    for ability in abilities:
        parts = _sorted(ability.children, options)[:left]
        left -= len(parts)
        yield _row(ability, largest, [_row(part, largest) for part in parts])


def _row(ability: Ability, largest: float, parts: Sequence[AbilityRow] = ()) -> AbilityRow:
    return AbilityRow(
        name=names.titled(ability.name) or "Unnamed",
        school=names.school_of(ability.school),
        school_name=names.known(ability.school),
        is_pet=ability.pet,
        share=ability.share,
        width=f"{min(max((ability.share or 0.0) / largest, 0.0), 1.0) * 100 if largest > 0 else 0.0:.1f}%",
        dps=ability.dps,
        executes=ability.executes,
        hits=ability.hits,
        average=ability.average,
        crit=ability.crit_percent,
        parts=parts,
    )
