"""Names of classes, schools, slots and stats, and the parts of profilesets' names."""

import re

CLASSES = (
    "death_knight demon_hunter druid evoker hunter mage monk paladin priest rogue shaman warlock warrior"
).split()
SCHOOLS = ("arcane", "fire", "frost", "holy", "nature", "physical", "shadow")
SLOTS = {
    "shoulder": "Shoulders",
    "wrist": "Wrists",
    "finger1": "Ring 1",
    "finger2": "Ring 2",
    "trinket1": "Trinket 1",
    "trinket2": "Trinket 2",
}
# Placeholders in reports for unknown values
UNKNOWN = ("", "none", "unknown")
MAX_PREFIX_LENGTH = 40
# Pages show the start and the end of a long name, because names often differ only at the end.
SHOWN_START, SHOWN_END = 200, 100
_PREFIX = re.compile(r"([^\s:/][^:/]*)(: ?|/| - )(?=\S)")


def class_of(class_name: str, specialization: str) -> str:
    """Return the key of a class, from its name or the last words of the specialization; empty if unknown."""
    for text in (class_name, specialization):
        plain = text.strip().lower().replace(" ", "_").replace("deathknight", "death_knight")
        plain = plain.replace("demonhunter", "demon_hunter")
        for key in CLASSES:
            if plain == key or plain.endswith(f"_{key}"):
                return key
    return ""


def specialization_of(class_name: str, specialization: str) -> str:
    """Return specialization and class as a reader expects them, for example "Frost Mage"; empty if unknown."""
    key = class_of(class_name, specialization)
    label = key.replace("_", " ").title() or known(class_name)
    spec = known(specialization)
    if not spec or not label or spec.lower().endswith(label.lower()):
        return spec or label
    return f"{spec} {label}"


def known(text: str) -> str:
    """Return a text of a report as a title, or an empty text if it is a placeholder."""
    return "" if text.strip().lower() in UNKNOWN else titled(text.strip())


def titled(text: str) -> str:
    """Return a name in lower case and underscores as a title; other texts stay unchanged."""
    return text.replace("_", " ").capitalize() if text == text.lower() else text


def school_of(text: str) -> str:
    """Return the key of a school that has a colour: the first one in the text, or an empty text."""
    found = [(text.lower().find(school), school) for school in SCHOOLS if school in text.lower()]
    return min(found)[1] if found else ""


def slot_of(text: str) -> str:
    """Return the label of an item's slot."""
    return SLOTS.get(text, titled(text))


def shortened(name: str) -> str:
    """Return a name for a page, without the middle of a long one."""
    if len(name) <= SHOWN_START + SHOWN_END:
        return name
    return f"{name[:SHOWN_START]}…{name[-SHOWN_END:]}"


def split(name: str) -> tuple[str, str]:
    """Return the prefix of a name with its separator, and the rest. Without a separator, the prefix is empty."""
    match = _PREFIX.match(name)
    if match is None or len(match[1]) > MAX_PREFIX_LENGTH:
        return "", name
    return match[0], name[match.end() :]


def prefix_of(name: str) -> str:
    """Return the prefix of a name without its separator; empty if it has none."""
    match = _PREFIX.match(name)
    return match[1] if match and len(match[1]) <= MAX_PREFIX_LENGTH else ""
