"""The options that start an actor (`docs/reference/simulator-command-line.md#actors`)."""

import re

# In any version. Enemies and pets have no results.
CLASSES = frozenset(
    "deathknight demonhunter druid evoker hunter mage monk paladin priest rogue shaman warlock warrior "
    "player_simplified mara rime gunde tariq ardeos helena elarion sylvie vigour aeona xavian".split()
)
DOWNLOADS = frozenset({"armory", "guild"})
OTHERS = frozenset("enemy tank_dummy tmi_boss pet guardian".split())
STARTS = CLASSES | DOWNLOADS | OTHERS | {"copy"}
# Options whose value is the name of an actor; some also take a type or the name of another actor.
NAMED = CLASSES | OTHERS | {"copy", "name"}
# The options of downloads, which stand among the names of characters.
DOWNLOAD_OPTIONS = frozenset("spec cache class max_rank ranks region server".split())
# Only the `source` of an item names a database to query; that of a character has no effect.
ITEM_SLOTS = frozenset(
    "head neck shoulder shoulders back chest shirt tabard wrist wrists hand hands waist leg legs foot feet finger1 "
    "finger2 ring1 ring2 trinket1 trinket2 main_hand off_hand ranged relic1 relic2 weapon items".split()
)
# Options that only an actor has: they show that an actor of a class that is not listed has begun.
ACTOR_OPTIONS = ITEM_SLOTS | frozenset("spec level race role position talents professions".split())
# Options whose value looks like a name, although they do not start an actor.
_NOT_CLASSES = frozenset(
    "active augmentation bugs challenge_mode comment covenant default_actions default_pet fight_style flask food "
    "guild_name id loot_spec name origin party potion profile profileset_metric profileset_multiactor_base_name "
    "ptr ready_trigger realm region scale_only scale_over scaling server soulbind source target target_error_role "
    "target_race temporary_enchant timeofday timewalk use_item warlords".split()
)
_LIKE_A_CLASS = re.compile("[a-z][a-z_]*")
_LIKE_A_NAME = re.compile(r"[^\W\d_][\w '-]*")
_CLASSES_BY_LETTERS = {name.replace("_", ""): name for name in CLASSES}


def may_start(name: str, value: str) -> bool:
    """Return whether an option may start a character of a class that is not listed."""
    return (
        name not in _NOT_CLASSES
        and name not in NAMED
        and _LIKE_A_CLASS.fullmatch(name) is not None
        and _LIKE_A_NAME.fullmatch(value) is not None
    )


def misspelt_class(name: str) -> str | None:
    """Return the class that an option's name differs from only in case, underscores or a plus sign, or None."""
    letters = name.rstrip("+").replace("_", "").replace("-", "").lower()
    found = _CLASSES_BY_LETTERS.get(letters)
    return found if found != name else None


def is_action_list(name: str) -> bool:
    """Return whether an option adds to a list of actions."""
    return name[:7] == "actions" and name.partition(".")[0].rstrip("+") == "actions"
