"""The character sheet: an actor's gear, talents and consumables as numbers.

The scale is similar to the game's, but the numbers are invented. They are deterministic, and more of anything is
never worth less.
"""

import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from minisim.actor import Actor
from minisim.values import SimulatorError, to_float, to_int

RATINGS = ("crit", "haste", "mastery", "versatility")
MAX_ACTIONS = 24
# Items from this id on are not in the built-in data, and the simulator cannot connect to look them up.
FIRST_UNKNOWN_ITEM = 990_000
MAX_POINTS = 1e9  # Keeps all numbers finite.

_PRIMARY = frozenset(
    {"int", "str", "agi", "strint", "stragi", "agiint", "stragiint", "intellect", "strength", "agility"}
)
_RATING_NAMES = {"crit": "crit", "haste": "haste", "mast": "mastery", "mastery": "mastery", "vers": "versatility"}
_CRAFTED_STATS = {"32": "crit", "36": "haste", "40": "versatility", "49": "mastery"}
_STAT = re.compile(r"([0-9]{1,9})_?([a-z]+)")
_SLOT_WEIGHTS = {
    # slot: (share of primary stat, share of ratings)
    **dict.fromkeys(("head", "chest", "legs"), (1.3, 1.1)),
    **dict.fromkeys(("shoulders", "waist", "hands", "feet"), (1.0, 0.9)),
    **dict.fromkeys(("back", "wrists"), (0.75, 0.6)),
    **dict.fromkeys(("neck", "finger1", "finger2"), (0.0, 1.6)),
    **dict.fromkeys(("trinket1", "trinket2"), (1.2, 0.8)),
    **dict.fromkeys(("main_hand", "ranged"), (2.4, 0.9)),
    "off_hand": (0.8, 0.6),
}
# For characters up to a level: the lowest and highest usual item level.
_USUAL_ILEVELS = ((60, 200, 235), (70, 390, 450), (80, 610, 684), (999, 240, 290))
_CONSUMABLES = ("potion", "flask", "food", "augmentation", "temporary_enchant")
_TALENT_OPTIONS = ("talents", "class_talents", "spec_talents", "hero_talents")


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of gear, with its rating points by name."""

    encoded: str
    name: str
    ilevel: int
    primary: float
    ratings: dict[str, float]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The input of the combat model for one actor. Chances and bonuses are fractions: 0.25 is 25 %."""

    name: str
    level: int
    power: float
    crit: float
    haste: float
    mastery: float
    versatility: float
    multiplier: float
    # Damage coefficients of actions, in order of priority. Without actions, the actor does no damage at all.
    actions: dict[str, float]
    passive: str  # The name of the ability that hits without being cast.
    gear: dict[str, Item]


# Returns an actor's primary stat and ratings with a change.
Changed = Callable[[Actor, float, dict[str, float]], tuple[float, dict[str, float]]]


def sheet_of(actor: Actor, changed: Changed | None = None) -> Sheet:
    """Return an actor's sheet. Raises SimulatorError for an invalid number."""
    level = min(max(to_int(actor.options.get("level", "80")), 1), 90)
    gear = _gear(actor, level)
    used = [actor.options.get(name, "") for name in _CONSUMABLES]
    consumed = 1 + sum(0.01 + 0.01 * _fraction(text) for text in used if text not in {"", "disabled", "none"})
    primary = 400 * 1.2 ** (level - 60) * consumed + sum(item.primary for item in gear.values())
    ratings = {rating: sum(item.ratings.get(rating, 0.0) for item in gear.values()) for rating in RATINGS}
    primary, ratings = _with_overrides(actor, primary, ratings)
    if changed:
        primary, ratings = changed(actor, primary, ratings)
    percent = {rating: points / (35 * 1.16 ** (level - 60)) for rating, points in ratings.items()}
    return Sheet(
        name=actor.name,
        level=level,
        power=max(primary, 1.0),
        crit=0.05 + _diminished(percent["crit"]),
        haste=_diminished(percent["haste"]),
        mastery=0.08 + _diminished(percent["mastery"]),
        versatility=_diminished(percent["versatility"]),
        multiplier=_multiplier(actor),
        actions=_coefficients(actor),
        passive="damage_over_time" if actor.options.get("role") == "spell" else "auto_attack",
        gear=gear,
    )


def _fraction(text: str) -> float:
    """Return a number in [0, 1) that depends only on the text."""
    return zlib.crc32(text.encode(errors="surrogatepass")) / 2**32


def _diminished(percent: float) -> float:
    """Convert a rating in percent to a fraction: always rising, nearly proportional at first, never above 0.6."""
    return 0.6 * -math.expm1(-max(percent, 0.0) / 60)


def _gear(actor: Actor, level: int) -> dict[str, Item]:
    """Return an actor's items by slot. Raises SimulatorError, which names the actor, the item and the slot."""
    gear = {}
    for slot, encoded in actor.gear.items():
        try:
            if encoded:
                gear[slot] = _item(slot, encoded, level)
        except SimulatorError as error:
            name = encoded.partition(",")[0] or "inactive"
            raise SimulatorError(f"Actor '{actor.name}': Item '{name}' Slot '{slot}': {error}") from error
    return gear


def _item(slot: str, encoded: str, level: int) -> Item:
    name, *parts = encoded.split(",")
    fields = {key.strip(): value for key, equals, value in (part.partition("=") for part in parts) if equals}
    if _number_or_zero(fields.get("id", "")) >= FIRST_UNKNOWN_ITEM:
        raise SimulatorError("Cannot initialize data")
    ilevel = min(max(_ilevel(fields, level), 1), 2000)
    primary_share, rating_share = _SLOT_WEIGHTS.get(slot, (0.0, 0.0))
    primary = 73 * 1.0093 ** (ilevel - 229) * primary_share
    ratings: dict[str, float] = {}
    points = 121 * 1.007 ** (ilevel - 229) * rating_share
    major, minor = _rating_kinds(fields, name)
    for rating, share in ((major, 0.6), (minor, 0.4)):
        ratings[rating] = ratings.get(rating, 0.0) + points * share
    if fields.get("stats"):
        primary, ratings = _explicit_stats(fields["stats"])
    # Gems, enchants and affixes are each worth a little of one rating.
    texts = (fields.get(key, "") for key in ("gem_id", "gems", "enchant", "enchant_id", "affixes"))
    for extra in (word for text in texts for word in text.split("/") if word not in {"", "0", "none"}):
        kind = RATINGS[int(_fraction(extra) * len(RATINGS))]
        ratings[kind] = ratings.get(kind, 0.0) + (0.4 + _fraction(extra[::-1])) * 12 * 1.16 ** (level - 60)
    return Item(encoded, name or f"item_{fields.get('id', slot)}", ilevel, primary, ratings)


def _ilevel(fields: dict[str, str], level: int) -> int:
    """Return the given item level, or else a usual one for the character level that depends only on the item."""
    for key in ("ilevel", "ilvl"):
        if fields.get(key):
            return to_int(fields[key])
    low, high = next((low, high) for top, low, high in _USUAL_ILEVELS if level <= top)
    return low + round((high - low) * _fraction(f"{fields.get('id')}/{fields.get('bonus_id')}"))


def _rating_kinds(fields: dict[str, str], name: str) -> tuple[str, str]:
    """Return the two ratings of an item: the given ones, or else two that depend only on the item."""
    named = [fields.get(key, "") for key in ("main_secondary", "fixed_secondary", "crafted_stats")]
    terms = [term for text in named for term in text.split("/")]
    kinds = [_CRAFTED_STATS.get(term) or _RATING_NAMES.get(term) for term in terms]
    first = int(_fraction(fields.get("id") or name) * len(RATINGS))
    fallback = [RATINGS[first], RATINGS[(first + 1) % len(RATINGS)]]
    major, minor, *_ = [kind for kind in kinds if kind] + fallback
    return major, minor


def _explicit_stats(text: str) -> tuple[float, dict[str, float]]:
    primary, ratings = 0.0, dict.fromkeys(RATINGS, 0.0)
    for amount, stat in _STAT.findall(text.lower()):
        if stat in _PRIMARY:
            primary += int(amount)
        elif rating := _RATING_NAMES.get(stat.removesuffix("rtng").removesuffix("rating")):
            ratings[rating] += int(amount)
        elif stat == "versatility":
            ratings["versatility"] += int(amount)
    return primary, ratings


def _with_overrides(actor: Actor, primary: float, ratings: dict[str, float]) -> tuple[float, dict[str, float]]:
    """Apply options such as `gear_haste_rating=`, which replace a total, and `enchant_…=`, which add to it."""
    ratings = dict(ratings)
    for name, value in actor.options.items():
        source, _, stat = name.partition("_")
        if source not in {"gear", "enchant"}:
            continue
        points = min(max(to_float(value), 0.0), MAX_POINTS)
        rating = stat.removesuffix("_rating")
        if rating in ratings:
            ratings[rating] = points + (ratings[rating] if source == "enchant" else 0.0)
        elif stat in _PRIMARY:
            primary = points + (primary if source == "enchant" else 0.0)
    return primary, ratings


def _multiplier(actor: Actor) -> float:
    """Return the factor for talents, race, specialisation, set bonuses and keyed options: a few percent each."""
    options = actor.options
    factor = 1 + 0.04 * _fraction(actor.kind + options.get("spec", "")) + 0.01 * _fraction(options.get("race", ""))
    for name in _TALENT_OPTIONS:
        factor *= 1 + sum(0.03 * _fraction(part) for part in options.get(name, "").split("/")[:100])
    owned = [bonus for bonus in set(actor.set_bonuses) if bonus.endswith("=1")]
    factor *= 1 + sum(0.005 + 0.02 * _fraction(bonus) for bonus in owned)
    return factor * (1 + sum(_keyed_bonus(name, value) for name, value in actor.keyed_options()))


def _keyed_bonus(name: str, value: str) -> float:
    """Return the bonus of an option such as `gems.ruby_power=300`; it rises with the value."""
    scale = 100 if name.startswith("gems.") else 1
    return (0.01 + 0.02 * _fraction(name)) * math.log1p(max(_number_or_zero(value), 0.0) / scale)


def _number_or_zero(text: str) -> float:
    try:
        return to_float(text)
    except SimulatorError:
        return 0.0


def _coefficients(actor: Actor) -> dict[str, float]:
    """Return the damage of each action relative to the average; a longer action list does a little more damage."""
    if actor.is_idle:
        return {}
    names = actor.actions()[:MAX_ACTIONS] or ["strike", "blast", "filler"]
    raw = {name: 0.5 + 1.3 * _fraction(actor.kind + name) for name in names}
    average = sum(raw.values()) / len(raw)
    quality = 1 + 0.02 * math.log(len(raw))
    return {name: quality * coefficient / average for name, coefficient in raw.items()}
