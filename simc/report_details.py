"""Details of a JSON report: the document that `jobs/results/details.py` describes.

The report is untrusted, and layouts differ: what is missing, unknown or impossible is left out, never an error.
Memory is bounded, because each list keeps only its largest entries
(`docs/reference/simulator-command-line.md#details-of-an-actor`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simc import report_abilities
from simc import report_values as values
from simc.equipment import clean
from simc.json_stream import Members, Shape
from simc.report_abilities import Abilities, Pets
from simc.report_values import ENTRY_WEIGHT, Bounded, Largest, kept_by, known
from simc.reports import Player

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
_MEAN: Shape = {"mean": None}
_BUFF: Shape = dict.fromkeys(("name", "spell_name", "spell", "uptime", "start_count", "source"))


def document(
    actors: Iterable[Mapping[str, Any]], *, options: Mapping[str, Any], targets: object, iterations: int
) -> dict[str, Any]:
    """Return the details of a report: its actors, as `actor` returns them, with the debuffs of their targets."""
    debuffs = kept_by(targets, Targets).values()
    return {
        "version": VERSION,
        "fight": _fight(options, iterations=iterations, listed_targets=getattr(targets, "count", 0)),
        "actors": [_with_debuffs(each, debuffs) for each in actors],
    }


def _fight(options: Mapping[str, Any], *, iterations: int, listed_targets: int) -> dict[str, Any]:
    variation = values.number(options.get("vary_combat_length"))
    return known(
        style=values.text(options.get("fight_style")),
        targets=_target_count(options, listed=listed_targets),
        length=values.number(options.get("max_time")) or None,
        variation=variation if variation is not None and variation <= 1 else None,
        iterations=values.integer(iterations),
        targetError=values.number(options.get("target_error")),
        gameVersion=_game_version(values.mapping(options.get("dbc"))),
    )


def _target_count(options: Mapping[str, Any], *, listed: int) -> int | None:
    """Return the number of targets, None if it is unknown.

    `desired_targets` is a minimum: its default is 1, even if the profile has several `enemy=`.
    """
    desired = values.integer(options.get("desired_targets")) or 0
    return max(desired, listed) if listed or desired > 1 else None


def _game_version(dbc: Mapping[str, Any]) -> str | None:
    used = "PTR" if dbc.get("version_used") == "PTR" else "Live"
    return values.text(values.mapping(dbc.get(used)).get("wow_version"))


def actor(entry: Mapping[str, Any], player: Player) -> dict[str, Any]:
    """Return the details of an actor whose entry was read with `ACTOR` and `COLLECTED`."""
    collected = values.mapping(entry.get("collected_data"))
    dps = _dps(values.mapping(collected.get("dps")))
    return known(
        name=player.name,
        **_specialization(values.text(entry.get("specialization")) or ""),
        race=values.text(entry.get("race")),
        level=values.integer(entry.get("level")),
        role=values.text(entry.get("role")),
        dps=dps,
        fightLength=_figures(collected.get("fight_length"), "mean", "min", "max"),
        abilities=report_abilities.shown(
            entry.get("stats"),
            entry.get("stats_pets"),
            total=values.mean(collected.get("compound_dmg")),
            dps=dps.get("mean"),
        ),
        buffs=_named(kept_by(entry.get("buffs"), Buffs)),
        damage=_timeline(values.mapping(collected.get("timeline_dmg")).get("data")),
        resources=_resources(entry, collected),
        stats=_stats(values.mapping(collected.get("buffed_stats"))),
        gear=list(player.gear),
        talents=player.talents,
    )


def _specialization(text: str) -> dict[str, Any]:
    """Return the class and the specialization of a text such as "Frost Mage"."""
    name = next((name for name in _CLASSES if text.endswith(name)), "")
    return known(**{"class": name, "specialization": values.text(text.removesuffix(name))})


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
        if uptime and uptime <= _MAX_UPTIME:
            buff = _buff(entry, uptime=min(uptime, 100.0))
            weight = ENTRY_WEIGHT + len(buff.name) + len(buff.token)
            self.largest.add(buff, size=uptime, weight=weight)


def _buff(entry: Mapping[str, Any], *, uptime: float) -> _Buff:
    token = values.text(entry.get("name")) or ""
    count = values.number(entry.get("start_count"))
    return _Buff(
        name=values.text(entry.get("spell_name")) or token,
        token=token,
        source=_source(entry.get("source")),
        fields=known(id=values.integer(entry.get("spell")), uptime=uptime, count=count),
    )


def _source(name: object) -> int | None:
    """Return the hash of an actor's name, None if it is unknown."""
    return hash(clean(name)) if isinstance(name, str) and values.text(name) else None


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


class Timeline:
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
    if not isinstance(value, Timeline) or not value.is_usable:
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


def _stats(block: Mapping[str, Any]) -> dict[str, Any]:
    return known(**{key: kept_by(block.get(key), _Numbers) for key in _STATS})


# What `document` and `actor` need of `sim.options`, of an actor and of its `collected_data`.
OPTIONS: dict[str, Shape] = {
    **dict.fromkeys(("fight_style", "desired_targets", "max_time", "vary_combat_length", "target_error")),
    "dbc": {"Live": {"wow_version": None}, "PTR": {"wow_version": None}, "version_used": None},
}
ACTOR: dict[str, Shape] = {
    **dict.fromkeys(("race", "level", "role", "specialization")),
    "stats": Abilities,
    "stats_pets": Members(Pets),
    "buffs": Buffs,
    "gains": Gains,
}
COLLECTED: dict[str, Shape] = {
    "fight_length": dict.fromkeys(("mean", "min", "max", "count")),
    "compound_dmg": _MEAN,
    "timeline_dmg": {"data": Timeline},
    **dict.fromkeys(_RESOURCES.values(), Members(_Numbers)),
    "buffed_stats": dict.fromkeys(_STATS, Members(_Numbers)),
}
