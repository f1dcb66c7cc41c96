"""Gear and talents of an actor in a report. All parts are optional; what cannot be used is left out."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from simc.json_stream import Shape
from simc.reports import LARGEST_NUMBER

_TALENTS_LENGTH = 2_000
_LISTED_TALENTS = 200
_LISTED_IDS = 40
_IDENTIFIER_DIGITS = 10
_ENCODED_ITEM_LENGTH = 10_000
_ITEM_NAME_LENGTH = 300

_GEAR_SLOTS = (
    "head", "neck", "shoulders", "back", "chest", "shirt", "tabard", "wrists", "hands", "waist", "legs",
    "feet", "finger1", "finger2", "trinket1", "trinket2", "main_hand", "off_hand", "ranged",
)  # fmt: skip
_ITEM: Shape = dict.fromkeys(("name", "encoded_item", "ilevel"))


class _TalentNames:
    """Talents as versions of 2020 list them: objects with a name."""

    shape: Shape = {"name": None}

    def __init__(self) -> None:
        self.kept: list[str] = []

    def take(self, entry: Any) -> None:
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and len(self.kept) < _LISTED_TALENTS:
            self.kept.append(name)


# The parts of an actor that `talents` and `gear` read.
SHAPE: dict[str, Shape] = {"talents": _TalentNames, "gear": dict.fromkeys(_GEAR_SLOTS, _ITEM)}


def talents(value: object) -> str:
    """Return the talents as one text."""
    if isinstance(value, _TalentNames):
        value = "/".join(value.kept)
    return clean(value)[:_TALENTS_LENGTH] if isinstance(value, str) else ""


def gear(value: object) -> Iterable[dict[str, Any]]:
    """Yield items in the layout of the summary. Layouts that only forks use are ignored, not rejected."""
    if isinstance(value, dict):
        for slot in _GEAR_SLOTS:
            item = value.get(slot)
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                yield _item(slot, item)


def _item(slot: str, item: Mapping[str, Any]) -> dict[str, Any]:
    encoded = item.get("encoded_item")
    text = encoded[:_ENCODED_ITEM_LENGTH] if isinstance(encoded, str) else ""
    options = {key: _identifiers(value) for key, _, value in (part.partition("=") for part in text.split(","))}
    ilevel = item.get("ilevel")
    optional = {
        "id": _first(options.get("id")),
        "ilevel": ilevel if type(ilevel) is int and 0 < ilevel < LARGEST_NUMBER else None,
        "bonusIds": options.get("bonus_id"),
        "gemIds": options.get("gem_id"),
        "enchantId": _first(options.get("enchant_id")),
    }
    known = {key: value for key, value in optional.items() if value}
    return {"slot": slot, "name": clean(item["name"])[:_ITEM_NAME_LENGTH], **known}


def _identifiers(value: str) -> list[int]:
    digits = [part for part in re.split("[/:]", value) if part.isascii() and part.isdigit()]
    return [int(part) for part in digits[:_LISTED_IDS] if len(part) <= _IDENTIFIER_DIGITS]


def _first(identifiers: list[int] | None) -> int | None:
    return identifiers[0] if identifiers else None


def clean(text: str) -> str:
    """Replace what PostgreSQL's jsonb cannot store: NUL and lone surrogates."""
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", text)
