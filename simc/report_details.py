"""Details of a JSON report: the document that `jobs/results/details.py` describes.

The report is untrusted, and layouts differ: what is missing, unknown or impossible is left out, never an error.
Memory is bounded, because each list keeps only its largest entries
(`docs/reference/simulator-command-line.md#details-of-an-actor`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from simc import report_values as values
from simc import stat_plots, stat_weights
from simc.json_stream import Members, Shape
from simc.report_values import ENTRY_WEIGHT, Bounded, Largest, clean, kept_by, known
from simc.reports import Player

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
    rate = values.mean(entry.get("portion_aps") or entry.get("portion_apse"))
    if rate is None and amount is not None and amount <= inner.amount * (1 + _ROUNDING):
        rate = 0.0
    return _Totals(
        amount=inner.amount + own if amount is None else amount,
        dps=None if rate is None or inner.dps is None else rate + inner.dps,
        hits=hits or inner.hits,
        crits=sum(each.crits for each in results) if hits else inner.crits,
        hit_amount=own if hits else inner.hit_amount,
    )


def _shown_abilities(
    abilities: object, pets: object, *, total: float | None, dps: float | None
) -> list[dict[str, Any]]:
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
    objects = []
    names = values.distinct_names([(ability.name, ability.token) for ability in abilities])
    for ability, name in zip(abilities, names, strict=True):
        totals = ability.totals
        share = min(totals.amount / total, 1.0)
        estimate = None if dps is None else share * dps
        fields = known(
            name=name,
            **ability.fields,
            share=share,
            dps=estimate if totals.dps is None else totals.dps,
            hits=totals.hits or None,
            average=totals.hit_amount / totals.hits if totals.hits else None,
            critPercent=100 * totals.crits / totals.hits if totals.hits else None,
            children=_objects(ability.children, total=total, dps=dps),
        )
        objects.append(fields)
    return objects


VERSION = 1
MAX_ACTORS = 50
MAX_BUFFS = 200
MAX_NAMES = 100
MAX_VALUES = 600
_MAX_DEBUFFS = 2_000
# Uptimes are percentages, with rounding errors.
_MAX_UPTIME = 100.001
_CLASSES = (
    "Death Knight", "Demon Hunter", "Druid", "Evoker", "Hunter", "Mage", "Monk", "Paladin", "Priest", "Rogue",
    "Shaman", "Warlock", "Warrior",
)  # fmt: skip
_RESOURCES = {"lost": "resource_lost", "overflowed": "resource_overflowed", "end": "combat_end_resource"}
_STATS = ("attribute", "resources", "stats")
_BUFF: Shape = dict.fromkeys(("name", "spell_name", "spell", "uptime", "start_count", "source"))


def document(
    actors: Iterable[Mapping[str, Any]],
    *,
    options: Mapping[str, Any],
    targets: object,
    plots: object = None,
    iterations: int,
) -> dict[str, Any]:
    """Return the details of a report: its actors, as `actor` returns them, with what other parts of it add.

    These are the debuffs of their targets, the options of their weights, and their plots.
    """
    debuffs = kept_by(targets, Targets).values()
    scaling = values.mapping(options.get("scaling"))
    return {
        "version": VERSION,
        "fight": _fight(options, iterations=iterations, listed_targets=getattr(targets, "count", 0)),
        "actors": [
            {
                **_with_debuffs(each, debuffs),
                **known(
                    weights=stat_weights.finished(each, options=scaling),
                    plots=stat_plots.plots_of(plots, name=each["name"]),
                ),
            }
            for each in actors
        ],
    }


def _fight(options: Mapping[str, Any], *, iterations: int, listed_targets: int) -> dict[str, Any]:
    variation = values.number(options.get("vary_combat_length"))
    # A minimum: its default is 1, even if the profile has several `enemy=`.
    desired = values.integer(options.get("desired_targets")) or 0
    dbc = values.mapping(options.get("dbc"))
    used = "PTR" if dbc.get("version_used") == "PTR" else "Live"
    return known(
        style=values.text(options.get("fight_style")),
        targets=max(desired, listed_targets) if listed_targets or desired > 1 else None,
        length=values.number(options.get("max_time")) or None,
        variation=variation if variation is not None and variation <= 1 else None,
        iterations=values.integer(iterations),
        targetError=values.number(options.get("target_error")),
        gameVersion=values.text(values.mapping(dbc.get(used)).get("wow_version")),
    )


def actor(entry: Mapping[str, Any], player: Player) -> dict[str, Any]:
    """Return the details of an actor whose entry was read with `ACTOR` and `COLLECTED`."""
    collected = values.mapping(entry.get("collected_data"))
    dps = _dps(values.mapping(collected.get("dps")))
    # Such as "Frost Mage"
    specialization = values.text(entry.get("specialization")) or ""
    class_name = next((name for name in _CLASSES if specialization.endswith(name)), "")
    return known(
        name=player.name,
        **known(**{"class": class_name, "specialization": values.text(specialization.removesuffix(class_name))}),
        race=values.text(entry.get("race")),
        level=values.integer(entry.get("level")),
        role=values.text(entry.get("role")),
        dps=dps,
        fightLength=_figures(collected.get("fight_length"), "mean", "min", "max"),
        abilities=_shown_abilities(
            entry.get("stats"),
            entry.get("stats_pets"),
            total=values.mean(collected.get("compound_dmg")),
            dps=dps.get("mean"),
        ),
        buffs=_named(kept_by(entry.get("buffs"), Buffs)),
        damage=_timeline(values.mapping(collected.get("timeline_dmg")).get("data")),
        resources=_resources(entry, collected),
        stats=known(
            **{key: kept_by(values.mapping(collected.get("buffed_stats")).get(key), _Numbers) for key in _STATS}
        ),
        gear=list(player.gear),
        talents=player.talents,
        weights=stat_weights.raw(entry),
    )


def _dps(block: Mapping[str, Any]) -> dict[str, Any]:
    error = values.number(block.get("mean_std_dev"))
    return known(
        **_figures(block, "mean", "min", "max", "median"),
        error=None if error is None else 1.96 * error,
        stddev=values.number(block.get("std_dev")),
    )


def _figures(block: object, *names: str) -> dict[str, Any]:
    return known(**{name: values.number(values.mapping(block).get(name)) for name in names})


@dataclass(slots=True)
class _Buff:
    name: str
    token: str
    # Only compared, so a hash is enough, and long names need no memory. None if unknown.
    source: int | None
    fields: dict[str, Any]


class Buffs(Bounded):
    """The buffs of an actor or a target, those with the highest uptime first."""

    entry_shape: Shape = _BUFF

    def __init__(self) -> None:
        self.largest = Largest(entries=MAX_BUFFS)

    @property
    def kept(self) -> list[_Buff]:
        return self.largest.kept

    def take(self, entry: Any) -> None:
        uptime = values.number(values.mapping(entry).get("uptime"))
        if not uptime or uptime > _MAX_UPTIME:
            return
        token = values.text(entry.get("name")) or ""
        name, source = values.text(entry.get("spell_name")) or token, entry.get("source")
        count, spell = values.number(entry.get("start_count")), values.integer(entry.get("spell"))
        buff = _Buff(
            name=name,
            token=token,
            source=hash(clean(source)) if isinstance(source, str) and values.text(source) else None,
            fields=known(id=spell, uptime=min(uptime, 100.0), count=count),
        )
        self.largest.add(buff, size=uptime, weight=ENTRY_WEIGHT + len(name) + len(token))


class Targets(Bounded):
    """The debuffs of the targets, by name and source. The first target with a debuff counts."""

    entry_shape: Shape = {"buffs": Buffs}

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int | None], _Buff] = {}
        self.count = 0

    def take(self, entry: Any) -> None:
        self.count += isinstance(entry, dict)
        for debuff in kept_by(values.mapping(entry).get("buffs"), Buffs):
            if len(self.kept) < _MAX_DEBUFFS:
                self.kept.setdefault((debuff.token, debuff.source), debuff)


def _with_debuffs(details: Mapping[str, Any], debuffs: Collection[_Buff]) -> dict[str, Any]:
    """Return an actor with the debuffs whose source it is, or whose source is unknown."""
    sources = (None, hash(details.get("name")))
    own = [debuff for debuff in debuffs if debuff.source in sources]
    shown = [{**debuff, "debuff": True} for debuff in _named(own)]
    buffs = sorted([*details.get("buffs", ()), *shown], key=lambda buff: -buff["uptime"])
    return {**details, **known(buffs=buffs[:MAX_BUFFS])}


def _named(buffs: Sequence[_Buff]) -> list[dict[str, Any]]:
    names = values.distinct_names([(buff.name, buff.token) for buff in buffs])
    return [known(name=name, **buff.fields, debuff=False) for buff, name in zip(buffs, names, strict=True)]


class FightTimeline:
    """Damage per second in the course of a fight, one value for each second. Long fights get a larger step."""

    shape: Shape = None

    def __init__(self) -> None:
        self.values: list[float] = []
        self.step = 1
        self.is_usable = True
        self._sum, self._taken = 0.0, 0

    def take(self, entry: Any) -> None:
        value = values.number(entry)
        self.is_usable = self.is_usable and value is not None
        self._sum += value or 0.0
        self._taken += 1
        if self._taken == self.step:
            self._make_room()
        if self._taken == self.step:
            self._end_step()

    def end(self) -> None:
        """End the last step, which can be shorter."""
        if self._taken:
            self._make_room()
            self._end_step()

    def _make_room(self) -> None:
        """If there are too many steps, make them twice as long."""
        if len(self.values) == MAX_VALUES:
            self.values = [sum(pair) / 2 for pair in zip(self.values[::2], self.values[1::2], strict=True)]
            self.step *= 2

    def _end_step(self) -> None:
        self.values.append(round(self._sum / self._taken, 2))
        self._sum, self._taken = 0.0, 0


def _timeline(value: object) -> dict[str, Any] | None:
    if not isinstance(value, FightTimeline) or not value.is_usable:
        return None
    value.end()
    return {"step": value.step, "values": value.values} if any(value.values) else None


class _Numbers(Bounded):
    """The numbers of an object with unknown keys; of statistics, their means."""

    entry_shape: Shape = _MEAN

    def __init__(self) -> None:
        self.kept: dict[str, float] = {}

    def take(self, member: tuple[str, Any]) -> None:
        name, value = member
        found = values.mean(value) if isinstance(value, dict) else values.signed(value)
        self.add(values.text(name), found)

    def add(self, name: str | None, number: float | None) -> None:
        """Add a number to those with the same name."""
        if name and number is not None and (name in self.kept or len(self.kept) < MAX_NAMES):
            self.kept[name] = self.kept.get(name, 0.0) + number


class _Gain(_Numbers):
    """The resources of one gain."""

    entry_shape: Shape = {"actual": None}

    def take(self, member: tuple[str, Any]) -> None:
        name, value = member
        self.add(values.text(name), values.number(values.mapping(value).get("actual")))


class Gains(_Numbers):
    """What an actor gains of each resource, over all gains."""

    entry_shape: Shape = Members(_Gain)

    def take(self, entry: Any) -> None:
        for name, number in kept_by(entry, _Gain).items():
            self.add(name, number)


def _resources(entry: Mapping[str, Any], collected: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the resources that an actor spends, those gained most first."""
    amounts = {key: kept_by(collected.get(source), _Numbers) for key, source in _RESOURCES.items()}
    amounts["gained"] = kept_by(entry.get("gains"), Gains)
    names = amounts["lost"] or amounts["gained"]
    resources = [known(name=name, **{key: found.get(name) for key, found in amounts.items()}) for name in names]
    return sorted(resources, key=lambda resource: -resource.get("gained", 0.0))


# What `document` and `actor` need of `sim.options`, of an actor and of its `collected_data`.
OPTIONS: dict[str, Shape] = {
    **dict.fromkeys(("fight_style", "desired_targets", "max_time", "vary_combat_length", "target_error")),
    "dbc": {"Live": {"wow_version": None}, "PTR": {"wow_version": None}, "version_used": None},
    "scaling": stat_weights.OPTIONS,
}
ACTOR: dict[str, Shape] = {
    **dict.fromkeys(("race", "level", "role", "specialization")),
    "stats": Abilities,
    "stats_pets": Members(Pets),
    "buffs": Buffs,
    "gains": Gains,
    **stat_weights.ACTOR,
}
COLLECTED: dict[str, Shape] = {
    "fight_length": dict.fromkeys(("mean", "min", "max", "count")),
    "compound_dmg": _MEAN,
    "timeline_dmg": {"data": FightTimeline},
    **dict.fromkeys(_RESOURCES.values(), Members(_Numbers)),
    "buffed_stats": dict.fromkeys(_STATS, Members(_Numbers)),
}
