"""Actors of a profile and their uninterpreted options."""

from dataclasses import dataclass, field

from minisim.values import names_in, to_float, to_int

# Options that start a player in any version of the simulator. See `docs/reference/simulator-command-
# line.md#actors`.
PLAYER_TYPES = names_in(
    """
    deathknight demonhunter druid evoker hunter mage monk paladin priest rogue shaman warlock warrior
    player_simplified mara rime gunde tariq ardeos helena elarion sylvie vigour aeona xavian
    """
)
ENEMY_TYPES = frozenset({"enemy", "tank_dummy", "tmi_boss"})
PET_TYPES = frozenset({"pet", "guardian"})

# Names of gear options and their slots.
_SLOT_NAMES = names_in(
    "head neck shoulders shirt chest waist legs feet wrists hands finger1 finger2 trinket1 trinket2 back main_hand "
    "off_hand ranged tabard"
)
SLOTS = {
    **{slot: slot for slot in _SLOT_NAMES},
    "shoulder": "shoulders",
    "leg": "legs",
    "foot": "feet",
    "wrist": "wrists",
    "hand": "hands",
    "ring1": "finger1",
    "ring2": "finger2",
    "weapon": "main_hand",
}

_SCALARS = names_in(
    """
    augmentation bugs class_talents class_talents+ covenant default_pet disable_hotfixes flask food hero_talents
    hero_talents+ id level origin position potion professions race ready_trigger region renown role server skill
    soulbind source spec spec_talents spec_talents+ talents temporary_enchant thumbnail timeofday world_lag
    """
)
_KEYED = ("apl_variable.", "gems.", "sets.", "legendary.", "weapon_trait.", "blessing.")
_ACCEPTED_PREFIXES = (
    *(f"{player}." for player in PLAYER_TYPES),
    *"gear_ enchant_ initial_resource shadowlands. dragonflight. thewarwithin. midnight. bfa.".split(),
)
_NOT_ACTIONS = names_in(
    """
    auto_attack augmentation call_action_list cancel_action cancel_buff flask food invoke_external_buff
    pool_resource potion retarget_auto_attack run_action_list snapshot_stats use_item use_items variable
    wait wait_for_cooldown
    """
)


@dataclass(slots=True)
class Actor:
    """An actor and its options; each mapping contains the last value of an option."""

    kind: str
    name: str
    options: dict[str, str] = field(default_factory=dict)
    gear: dict[str, str] = field(default_factory=dict)
    set_bonuses: tuple[str, ...] = ()
    action_lists: dict[str, str] = field(default_factory=dict)

    def apply(self, name: str, value: str) -> bool:
        """Apply one option; return False if players have no such option. Raises SimulatorError."""
        if name == "name":
            self.name = value
        elif name in SLOTS:
            self.gear[SLOTS[name]] = value
        elif name == "set_bonus":
            self.set_bonuses = (*self.set_bonuses, value)
        elif name.removesuffix("+") == "actions" or name.startswith("actions."):
            list_name = name.removesuffix("+")
            before = self.action_lists.get(list_name, "") if name.endswith("+") else ""
            self.action_lists[list_name] = before + value
        elif name in _SCALARS or name.startswith(_KEYED) or name.startswith(_ACCEPTED_PREFIXES):
            # Only to reject invalid numbers
            if name == "level":
                to_int(value)
            elif name.startswith(("gear_", "enchant_")):
                to_float(value)
            self.options[name] = value
        else:
            return False
        return True

    def copy(self, name: str) -> "Actor":
        """Return an independent actor with the same options under another name."""
        return Actor(
            self.kind, name, dict(self.options), dict(self.gear), self.set_bonuses, dict(self.action_lists)
        )

    @property
    def is_idle(self) -> bool:
        """Return whether there are action lists and none of them contains anything that does damage."""
        lists = [text for name, text in self.action_lists.items() if text and name != "actions.precombat"]
        attacks = any("auto_attack" in text.split("/") for text in lists)
        return bool(lists) and not attacks and not self.actions()

    @property
    def is_player(self) -> bool:
        """Return whether this actor fights and so has results. Enemies and pets only store their options."""
        return self.kind in PLAYER_TYPES

    def keyed_options(self) -> list[tuple[str, str]]:
        """Return options such as `gems.ruby_power=100`, sorted by name."""
        return sorted((name, value) for name, value in self.options.items() if name.startswith(_KEYED))

    def actions(self) -> list[str]:
        """Return the distinct names in the action lists in order, without those that do no damage."""
        names: dict[str, None] = {}
        for list_name, text in self.action_lists.items():
            if list_name != "actions.precombat":
                names |= dict.fromkeys(entry.partition(",")[0] for entry in text.split("/"))
        return [name for name in names if name and name not in _NOT_ACTIONS]
