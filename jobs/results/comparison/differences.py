"""How the jobs of a comparison differ. The first job with a result is the one that others are compared with."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobs.results.comparison.sides import Figure, Side
from jobs.results.details import Ability
from simc.profiles import diff
from simc.profiles.diff import Diff

COMMIT_CHARACTERS = 12
MIN_KNOWN = 2


class Option(StrEnum):
    """What jobs can have in common besides their profile, or not."""

    ACTOR = "actor"
    FIGHT_STYLE = "fight_style"
    TARGETS = "targets"
    LENGTH = "length"
    VARIATION = "variation"
    ITERATIONS = "iterations"
    TARGET_ERROR = "target_error"
    PROFILESETS = "profilesets"
    STAGES = "stages"
    BUILD = "build"
    GAME_VERSION = "game_version"


@dataclass(frozen=True, kw_only=True)
class Change:
    """The difference of a mean from the first one. `percent` is None if that is zero.

    `is_clear` says that it exceeds `margin`, the combined 95 % margin of error.
    """

    difference: float
    percent: float | None
    margin: float
    is_clear: bool


@dataclass(frozen=True, kw_only=True)
class Row:
    """What the jobs have in one place: an option, or the item in a slot. Unknown values are None."""

    name: str
    values: Sequence[Any]
    differs: bool


@dataclass(frozen=True, kw_only=True)
class AbilityRow:
    """The DPS of an ability in each job, None if unknown, and its differences from the first job."""

    name: str
    is_pet: bool
    values: Sequence[float | None]
    differences: Sequence[float | None]

    @property
    def largest(self) -> float:
        """Return the largest difference, without its sign."""
        return max((abs(each) for each in self.differences if each is not None), default=0.0)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How jobs differ.

    `changes` and `profiles` have an entry for each job: None for the first one, and if there is nothing to compare.
    """

    sides: Sequence[Side]
    first: int | None
    """The place of the job that others are compared with."""
    changes: Sequence[Change | None]
    options: Sequence[Row]
    gear: Sequence[Row]
    talents: Row | None
    abilities: Sequence[AbilityRow]
    profiles: Sequence[Diff | None]


def compare(sides: Sequence[Side]) -> Comparison:
    """Return how jobs differ. No query."""
    first = next((place for place, side in enumerate(sides) if side.figure), None)
    base = None if first is None else sides[first]
    max_listed = diff.MAX_LISTED // max(len(sides) - 1, 1)
    return Comparison(
        sides=sides,
        first=first,
        changes=[_change(side.figure, base.figure) if base and side is not base else None for side in sides],
        options=_options(sides),
        gear=_gear(sides),
        talents=_talents(sides),
        abilities=[] if first is None else _abilities(sides, first=first),
        profiles=[_profile_diff(side, base, max_listed=max_listed) for side in sides],
    )


def _change(figure: Figure | None, base: Figure | None) -> Change | None:
    """Return the difference of a figure, or None if the figures are not of the same kind."""
    if not figure or not base or figure.metric != base.metric:
        return None
    difference, margin = figure.mean - base.mean, math.hypot(figure.error, base.error)
    return Change(
        difference=difference,
        percent=difference / abs(base.mean) * 100 if base.mean else None,
        margin=margin,
        is_clear=abs(difference) > margin,
    )


def _options(sides: Sequence[Side]) -> list[Row]:
    """Return the options that are known of a job."""
    values = [_options_of(side) for side in sides]
    rows = [_row(option, [each.get(option) for each in values]) for option in Option]
    return [row for row in rows if any(value is not None for value in row.values)]


def _options_of(side: Side) -> Mapping[Option, Any]:
    """Return the options of a job, without those that are unknown."""
    if side.figure is None:
        return {}
    build, fight = side.job.build, side.fight
    options = {
        Option.ACTOR: side.actor,
        Option.FIGHT_STYLE: fight.style,
        Option.TARGETS: fight.targets,
        Option.LENGTH: fight.length,
        Option.VARIATION: fight.variation,
        Option.ITERATIONS: side.iterations,
        Option.TARGET_ERROR: fight.target_error,
        Option.PROFILESETS: side.profilesets,
        Option.STAGES: side.job.multi_stage,
        Option.BUILD: build and f"{build.simc_version} ({build.git_branch} {build.commit[:COMMIT_CHARACTERS]})",
        Option.GAME_VERSION: fight.game_version or (build and build.wow_version),
    }
    return {option: value for option, value in options.items() if value not in (None, "")}


def _row(name: str, values: Sequence[Any]) -> Row:
    """Return a row, which differs if two known values differ."""
    known = [value for value in values if value is not None]
    return Row(name=name, values=values, differs=any(value != known[0] for value in known))


def _gear(sides: Sequence[Side]) -> list[Row]:
    """Return the items by slot, if the gear of at least two jobs is known. An empty slot is an empty item."""
    worn = [{item.get("slot", ""): item for item in side.gear} if side.gear else None for side in sides]
    slots = dict.fromkeys(slot for items in worn if items for slot in items)
    if _known(worn) < MIN_KNOWN:
        return []
    return [_gear_row(slot, [None if items is None else items.get(slot, {}) for items in worn]) for slot in slots]


def _gear_row(slot: str, items: Sequence[Mapping[str, Any] | None]) -> Row:
    return Row(
        name=slot,
        values=items,
        differs=_row(slot, [None if item is None else identity(item) for item in items]).differs,
    )


def identity(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what distinguishes an item from others: its name only if its id is unknown."""
    return {key: value for key, value in item.items() if key != "name" or not item.get("id")}


def _talents(sides: Sequence[Side]) -> Row | None:
    """Return the talents, if those of at least two jobs are known."""
    values = [side.talents or None for side in sides]
    return _row("talents", values) if _known(values) >= MIN_KNOWN else None


def _known(values: Sequence[object]) -> int:
    return sum(value is not None for value in values)


def _abilities(sides: Sequence[Side], *, first: int) -> list[AbilityRow]:
    """Return the abilities of all jobs, the largest difference first; none if there is nothing to compare."""
    damage = [None if side.abilities is None else _damage(side.abilities) for side in sides]
    own = damage[first]
    if own is None or _known(damage) < MIN_KNOWN:
        return []
    names = dict.fromkeys(name for each in damage if each for name in each)
    rows = [_ability_row(name, damage, own) for name in names]
    return sorted(rows, key=lambda row: -row.largest)


def _damage(abilities: Sequence[Ability]) -> dict[tuple[str, bool], float]:
    """Return the DPS of each name. Abilities with the same name are added."""
    found: dict[tuple[str, bool], float] = {}
    for each in abilities:
        key = (each.name, each.pet)
        found[key] = found.get(key, 0.0) + (each.dps or 0.0)
    return found


def _ability_row(
    key: tuple[str, bool],
    damage: Sequence[Mapping[tuple[str, bool], float] | None],
    own: Mapping[tuple[str, bool], float],
) -> AbilityRow:
    values = [None if each is None else each.get(key, 0.0) for each in damage]
    return AbilityRow(
        name=key[0],
        is_pet=key[1],
        values=values,
        differences=[
            None if value is None or each is own else value - own.get(key, 0.0)
            for value, each in zip(values, damage, strict=True)
        ],
    )


def _profile_diff(side: Side, base: Side | None, *, max_listed: int) -> Diff | None:
    if base is None or side is base or base.profile is None or side.profile is None:
        return None
    return diff.compare(base.profile, side.profile, max_listed=max_listed)
