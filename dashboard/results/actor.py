"""Everything that is known about one actor: damage, buffs, resources, stats, gear and talents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dashboard.results import game_links, names
from dashboard.results.breakdown import Breakdown, breakdown_of
from dashboard.results.damage_chart import DamageChart, chart_of
from dashboard.results.options import Options
from dashboard.results.plots import PlotsView, plots_of
from dashboard.results.weights import WeightsView, weights_of
from jobs.results.details import Actor, Buff, Resource, Stats

OPEN_BUFFS, MAX_BUFFS = 10, 60
MAX_ITEMS = 40
# Percentages of the simulator's stats, each with its rating
PERCENTAGES = (
    ("Critical strike", "crit_pct", "crit_rating"),
    ("Haste", "haste_pct", "haste_rating"),
    ("Mastery", "mastery_pct", "mastery_rating"),
    ("Versatility", "versatility_pct", "versatility_rating"),
)
ATTRIBUTES = ("strength", "agility", "intellect", "stamina")


@dataclass(frozen=True, kw_only=True)
class Who:
    """The character in words. `class_key` chooses the colour."""

    class_key: str
    specialization: str
    level: int | None
    race: str


class Stat(NamedTuple):
    """A stat as text, and its rating."""

    label: str
    value: str
    rating: str


@dataclass(frozen=True, kw_only=True)
class Item:
    """A worn item with its numbers, and its address and those of its gems in the database of the game, if known."""

    slot: str
    name: str
    link: str
    level: int | None
    enchant: str
    gems: str
    gem_links: Sequence[tuple[str, str]]
    number: str
    bonuses: str
    crafted_stats: str


@dataclass(frozen=True, kw_only=True)
class ActorView:
    """An actor as pages show it. Parts without data are empty."""

    name: str
    who: Who
    mean: float | None
    error: float | None
    breakdown: Breakdown | None
    chart: DamageChart | None
    buffs: Sequence[Buff]
    folded_buffs: Sequence[Buff]
    resources: Sequence[Resource]
    stats: Sequence[Stat]
    gear: Sequence[Item]
    item_level: float | None
    talents: str
    weights: WeightsView | None
    plots: PlotsView | None

    @property
    def has_ratings(self) -> bool:
        return any(stat.rating for stat in self.stats)


def view_of(actor: Actor, options: Options, *, gear: Sequence[Mapping[str, Any]], talents: str) -> ActorView:
    """Return an actor for a page. `gear` and `talents` are those of the summary, if the details have none."""
    items = [item_of(entry) for entry in [*(actor.gear or gear)][:MAX_ITEMS]]
    levels = [item.level for item in items if item.level]
    buffs = [buff for buff in actor.buffs if buff.uptime is not None][:MAX_BUFFS]
    return ActorView(
        name=actor.name,
        who=who_of(actor),
        mean=actor.dps.mean if actor.dps else None,
        error=actor.dps.error if actor.dps else None,
        breakdown=breakdown_of(actor.abilities, options),
        chart=chart_of(actor.damage, mean=actor.dps.mean if actor.dps else None),
        buffs=buffs[:OPEN_BUFFS],
        folded_buffs=buffs[OPEN_BUFFS:],
        resources=[resource for resource in actor.resources if resource.gained or resource.lost],
        stats=_stats(actor.stats) if actor.stats else [],
        gear=items,
        item_level=sum(levels) / len(levels) if levels else None,
        talents=actor.talents or talents,
        weights=weights_of(actor.weights, options),
        plots=plots_of(actor.plots),
    )


def who_of(actor: Actor) -> Who:
    """Return class, specialization, level and race of an actor, as far as they are known."""
    return Who(
        class_key=names.class_of(actor.class_name, actor.specialization).replace("_", "-"),
        specialization=names.specialization_of(actor.class_name, actor.specialization),
        level=actor.level,
        race=names.known(actor.race),
    )


def _stats(stats: Stats) -> list[Stat]:
    """Return the attributes, then the percentages with their ratings."""
    attributes = [
        Stat(names.titled(name), f"{stats.attribute[name]:,.0f}", "")
        for name in ATTRIBUTES
        if stats.attribute.get(name)
    ]
    found = stats.stats
    percentages = [
        Stat(label, f"{found[percentage] * 100:.1f} %", f"{found[rating]:,.0f}" if rating in found else "")
        for label, percentage, rating in PERCENTAGES
        if percentage in found
    ]
    return [*attributes, *percentages]


def item_of(entry: Mapping[str, Any]) -> Item:
    """Return a worn item in the layout of the summary for a page."""
    return Item(
        slot=names.slot_of(str(entry.get("slot", ""))),
        name=names.titled(str(entry.get("name", ""))),
        link=game_links.link_to("item", entry.get("id")),
        level=entry.get("ilevel") or None,
        enchant=str(entry.get("enchantId") or ""),
        gems=_joined(entry.get("gemIds")),
        gem_links=[(str(gem), game_links.link_to("item", gem)) for gem in _listed(entry.get("gemIds"))],
        number=str(entry.get("id") or ""),
        bonuses=_joined(entry.get("bonusIds")),
        crafted_stats=_joined(entry.get("craftedStatIds")),
    )


def _joined(numbers: Any) -> str:
    return ", ".join(map(str, _listed(numbers)))


def _listed(numbers: Any) -> Sequence[Any]:
    return numbers if isinstance(numbers, list) else ()
