"""The breakdown of an actor's damage by ability."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from dashboard.results import game_links, names
from dashboard.results.options import Options
from jobs.results.details import Ability

OPEN_ROWS = 20
# Abilities, and parts of all of them: more than actors have. They keep pages small, whatever a report contains.
MAX_ROWS, MAX_PARTS = 50, 60
BRIEF_ROWS = 6
# The columns: the sort, the heading, and what it means
COLUMNS = (
    ("name", "Ability", ""),
    ("share", "Share", "Share of the actor's damage"),
    ("dps", "DPS", "Damage per second"),
    ("executes", "Uses", "Mean number of uses per fight"),
    ("hits", "Hits", "Mean number of hits and ticks per fight"),
    ("average", "Average", "Mean damage of a hit or tick"),
    ("crit", "Crit", "Share of the hits and ticks that are critical"),
)


@dataclass(frozen=True, kw_only=True)
class AbilityRow:
    """An ability, or a pet with its abilities as `parts`. `width` is relative to the largest share.

    `link` leads to a database of the game, empty if it is not known there.
    """

    ability: Ability
    name: str
    link: str
    school: str
    school_name: str
    width: str
    parts: "Sequence[AbilityRow]"


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """The abilities of an actor, first those that are shown at once, then the folded ones.

    `headings` are those of the columns: label and explanation, the link that sorts, and the current direction.
    `covered` is the part of the damage that the abilities explain.
    """

    rows: Sequence[AbilityRow]
    folded: Sequence[AbilityRow]
    headings: Sequence[Mapping[str, str]]
    count: int
    left_out: int
    covered: float

    @property
    def brief(self) -> Sequence[AbilityRow]:
        """Return the abilities with the largest shares."""
        return sorted([*self.rows, *self.folded], key=lambda row: -(row.ability.share or 0))[:BRIEF_ROWS]


def breakdown_of(abilities: Sequence[Ability], options: Options) -> Breakdown | None:
    """Return the breakdown, or None without abilities."""
    if not abilities:
        return None
    largest = max(ability.share or 0.0 for ability in abilities)
    rows, left = [], MAX_PARTS
    for ability in _sorted(abilities, options)[:MAX_ROWS]:
        parts = _sorted(ability.children, options)[:left]
        left -= len(parts)
        rows.append(_row(ability, largest, [_row(part, largest) for part in parts]))
    return Breakdown(
        rows=rows[:OPEN_ROWS],
        folded=rows[OPEN_ROWS:],
        headings=[
            {
                "label": label,
                "title": title,
                "link": options.link(by=key),
                "direction": ("ascending" if key == "name" else "descending") if options.by == key else "",
            }
            for key, label, title in COLUMNS
        ],
        count=len(abilities),
        left_out=len(abilities) - len(rows),
        covered=sum(ability.share or 0.0 for ability in abilities),
    )


def _sorted(abilities: Sequence[Ability], options: Options) -> list[Ability]:
    """Return abilities by the chosen column: names from A, numbers from the largest, unknown ones last."""
    if options.by == "name":
        return sorted(abilities, key=lambda ability: ability.name.casefold())
    values = attrgetter("crit_percent" if options.by == "crit" else options.by)
    return sorted(abilities, key=lambda ability: math.inf if values(ability) is None else -values(ability))


def _row(ability: Ability, largest: float, parts: Sequence[AbilityRow] = ()) -> AbilityRow:
    return AbilityRow(
        ability=ability,
        name=names.titled(ability.name) or "Unnamed",
        # Without the spell's data, the report has a token, and the id is a number of its own.
        link="" if names.is_token(ability.name) else game_links.link_to("spell", ability.id),
        school=names.school_of(ability.school),
        school_name=names.known(ability.school),
        width=f"{min(max((ability.share or 0.0) / largest, 0.0), 1.0) * 100 if largest > 0 else 0.0:.1f}%",
        parts=parts,
    )
