"""Abilities and pets of an actor in a report (`docs/reference/simulator-command-line.md#details-of-an-actor`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from simc import report_values as values
from simc.json_stream import Members, Shape
from simc.report_values import ENTRY_WEIGHT, Bounded, Largest, known

MAX_ABILITIES = 200
# Real abilities are nested three deep at most.
MAX_DEPTH = 5
_MEAN: Shape = {"mean": None}
# Sums of the same numbers differ by rounding.
_ROUNDING = 1e-9


@dataclass(slots=True)
class _Totals:
    """Sums over abilities, as means of one fight. `dps` is None if it is unknown for one of them."""

    amount: float = 0.0
    dps: float | None = 0.0
    hits: float = 0.0
    crits: float = 0.0
    hit_amount: float = 0.0

    def add(self, other: "_Totals") -> None:
        self.amount += other.amount
        self.dps = None if self.dps is None or other.dps is None else self.dps + other.dps
        self.hits += other.hits
        self.crits += other.crits
        self.hit_amount += other.hit_amount


@dataclass(slots=True)
class _Ability:
    """An ability, or a pet. `token` is its unique name among its siblings."""

    name: str
    token: str
    fields: dict[str, Any]
    totals: _Totals
    children: "list[_Ability]"
    weight: int


class _Results(Bounded):
    """The results of an ability's hits or ticks, by name: how many, and how many of them were critical."""

    entry_shape: Shape = {"count": _MEAN}

    def __init__(self) -> None:
        self.hits = self.crits = 0.0

    def take(self, member: tuple[str, Any]) -> None:
        name, result = member
        number = values.mean(values.mapping(result).get("count")) or 0.0
        self.hits += number
        self.crits += number if "crit" in name else 0.0


class Abilities(Bounded):
    """The abilities of an actor, a pet or an ability that do damage."""

    def __init__(self, *, is_pet: bool = False, depth: int = 1) -> None:
        self.entry_shape = _PET_SHAPES[depth] if is_pet else _SHAPES[depth]
        self.totals = _Totals()
        self.largest = Largest(entries=MAX_ABILITIES)

    def take(self, entry: Any) -> None:
        if entry and isinstance(entry, dict) and entry.get("type", "damage") == "damage":
            self.add(_ability(entry))

    def add(self, ability: _Ability) -> None:
        """Add an ability if it does damage."""
        if ability.totals.amount > 0:
            self.totals.add(ability.totals)
            self.largest.add(ability, size=ability.totals.amount, weight=ability.weight)


class Pets(Abilities):
    """The pets of an actor, each with its abilities."""

    def __init__(self) -> None:
        super().__init__()
        self.entry_shape = partial(Abilities, is_pet=True, depth=2)

    def take(self, entry: Any) -> None:
        name, abilities = entry
        if isinstance(abilities, Abilities):
            token = values.text(name) or ""
            children = abilities.largest
            weight = ENTRY_WEIGHT + len(token) + children.weight
            self.add(_Ability(token, token, {"pet": True}, abilities.totals, children.kept, weight))


def _ability_shape(depth: int, *, is_pet: bool) -> dict[str, Shape]:
    # A pet's own DPS refers to the time that it is active, not to the fight.
    shape: dict[str, Shape] = {
        **dict.fromkeys(("name", "spell_name", "id", "school", "type", "compound_amount")),
        **dict.fromkeys(("portion_apse" if is_pet else "portion_aps", "actual_amount", "num_executes"), _MEAN),
        **dict.fromkeys(("direct_results", "tick_results"), Members(_Results)),
    }
    if depth < MAX_DEPTH:
        shape["children"] = partial(Abilities, is_pet=is_pet, depth=depth + 1)
    return shape


_SHAPES = {depth: _ability_shape(depth, is_pet=False) for depth in range(1, MAX_DEPTH + 1)}
_PET_SHAPES = {depth: _ability_shape(depth, is_pet=True) for depth in range(1, MAX_DEPTH + 1)}


def _ability(entry: Mapping[str, Any]) -> _Ability:
    children = entry.get("children")
    inner = children if isinstance(children, Abilities) else Abilities()
    token = values.text(entry.get("name")) or ""
    name = values.text(entry.get("spell_name")) or token
    return _Ability(
        name=name,
        token=token,
        fields=known(
            id=values.integer(entry.get("id")),
            school=values.text(entry.get("school")),
            executes=values.mean(entry.get("num_executes")),
        ),
        totals=_totals(entry, inner.totals),
        children=inner.largest.kept,
        weight=ENTRY_WEIGHT + len(name) + len(token) + inner.largest.weight,
    )


def _totals(entry: Mapping[str, Any], inner: _Totals) -> _Totals:
    """Return the totals of an ability: damage with its children, and its own hits, or theirs if it has none."""
    own = values.mean(entry.get("actual_amount")) or 0.0
    amount = values.number(entry.get("compound_amount"))
    results = [entry[key] for key in ("direct_results", "tick_results") if isinstance(entry.get(key), _Results)]
    hits = sum(each.hits for each in results)
    return _Totals(
        amount=inner.amount + own if amount is None else amount,
        dps=_dps(entry, inner, amount=amount),
        hits=hits or inner.hits,
        crits=sum(each.crits for each in results) if hits else inner.crits,
        hit_amount=own if hits else inner.hit_amount,
    )


def _dps(entry: Mapping[str, Any], inner: _Totals, *, amount: float | None) -> float | None:
    """Return the DPS of an ability and its children, or None if it is unknown."""
    own = values.mean(entry.get("portion_aps") or entry.get("portion_apse"))
    if own is None and amount is not None and amount <= inner.amount * (1 + _ROUNDING):
        own = 0.0
    return None if own is None or inner.dps is None else own + inner.dps


def shown(abilities: object, pets: object, *, total: float | None, dps: float | None) -> list[dict[str, Any]]:
    """Return the abilities and pets that two collectors took, those with the most damage first.

    `total` is the actor's damage in one fight, if known. An ability of unknown DPS gets its share of `dps`.
    """
    listed = Largest(entries=MAX_ABILITIES)
    taken = 0.0
    for collector in (abilities, pets):
        if isinstance(collector, Abilities):
            taken += collector.totals.amount
            for ability in collector.largest.kept:
                listed.add(ability, size=ability.totals.amount, weight=ability.weight)
    # The simulator hides a few abilities, whose damage is in the total.
    return _objects(listed.kept, total=max(taken, total or 0.0), dps=dps)


def _objects(abilities: Sequence[_Ability], *, total: float, dps: float | None) -> list[dict[str, Any]]:
    names = values.distinct_names([(ability.name, ability.token) for ability in abilities])
    return [
        _object(ability, name=name, total=total, dps=dps) for ability, name in zip(abilities, names, strict=True)
    ]


def _object(ability: _Ability, *, name: str, total: float, dps: float | None) -> dict[str, Any]:
    totals = ability.totals
    share = min(totals.amount / total, 1.0)
    estimate = None if dps is None else share * dps
    return known(
        name=name,
        **ability.fields,
        share=share,
        dps=estimate if totals.dps is None else totals.dps,
        hits=totals.hits or None,
        average=totals.hit_amount / totals.hits if totals.hits else None,
        critPercent=100 * totals.crits / totals.hits if totals.hits else None,
        children=_objects(ability.children, total=total, dps=dps),
    )
