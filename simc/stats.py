"""The stats of an actor, by the abbreviations that reports use.

See `docs/reference/simulator-command-line.md#stat-weights-and-plots`.
"""

from typing import NamedTuple


class Stat(NamedTuple):
    """A stat: its title, its name in the Pawn addon (empty if it has none), and the simulator's other names."""

    title: str
    pawn: str
    names: tuple[str, ...]


STATS = {
    "Str": Stat("Strength", "Strength", ("strength",)),
    "Agi": Stat("Agility", "Agility", ("agility",)),
    "Sta": Stat("Stamina", "Stamina", ("stamina",)),
    "Int": Stat("Intellect", "Intellect", ("intellect",)),
    "Spi": Stat("Spirit", "Spirit", ("spirit", "spr")),
    "SP": Stat("Spell power", "SpellPower", ("spell_power", "spellpower", "splpwr")),
    "AP": Stat("Attack power", "Ap", ("attack_power", "attackpower", "atkpwr")),
    "Exp": Stat("Expertise", "", ("expertise_rating", "expertiserating", "exprtng")),
    "Hit": Stat("Hit", "", ("hit_rating", "hitrating", "hitrtng")),
    "Crit": Stat("Critical strike", "CritRating", ("crit_rating", "critrating", "critstrkrtng")),
    "Haste": Stat("Haste", "HasteRating", ("haste_rating", "hasterating", "hastertng")),
    "Mastery": Stat("Mastery", "MasteryRating", ("mastery_rating", "masteryrating", "mastrtng")),
    "Vers": Stat("Versatility", "Versatility", ("versatility_rating", "versatility")),
    "Wdps": Stat("Weapon DPS", "Dps", ("weapon_dps", "__dps", "__wpds")),
    "WOHdps": Stat("Off-hand DPS", "OffHandDps", ("weapon_offhand_dps",)),
    "Armor": Stat("Armor", "Armor", ()),
    "BonusArmor": Stat("Bonus armor", "BonusArmor", ("bonus_armor", "armorbonus")),
    "Resil": Stat("Resilience", "", ("resilience_rating", "resilrating", "resiliencertng")),
    "Dodge": Stat("Dodge", "", ("dodge_rating", "dodgerating", "dodgertng")),
    "Parry": Stat("Parry", "", ("parry_rating", "parryrating", "parryrtng")),
    "BlockR": Stat("Block", "", ("block_rating",)),
    "Leech": Stat("Leech", "Leech", ("leech_rating", "lifesteal")),
    "RunSpeed": Stat("Speed", "", ("speed_rating", "speedbonus")),
    "Avoidance": Stat("Avoidance", "", ("avoidance_rating",)),
}
_BY_NAME = {name: key for key, stat in STATS.items() for name in (key.lower(), *stat.names)}


def title_of(abbreviation: str) -> str:
    """Return the title of a stat, or the abbreviation itself if it is unknown."""
    stat = STATS.get(abbreviation)
    return stat.title if stat else abbreviation


def listed(value: str) -> tuple[set[str], list[str]]:
    """Return the abbreviations of the stats that an option lists, and the names in it that are not stats."""
    for separator in ":;/|":
        value = value.replace(separator, ",")
    names = [name for name in value.split(",") if name]
    found = {_BY_NAME[name.lower()] for name in names if name.lower() in _BY_NAME}
    return found, [name for name in names if name.lower() not in _BY_NAME]
