"""Names of classes, schools, slots and stats, names made of tokens, and the parts of profilesets' names.

Reports name spells as the game does if the build has their data. Otherwise, and for all items, they have only
tokens such as `shifting_power`, which have lost capitals and apostrophes. A build cannot print the names of items
or enchantments (`spell_query` knows spells and talents only), so they stay tokens in title case, with their ids.
"""

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
# Words that titles do not capitalize, except at the start and at the end
SMALL_WORDS = frozenset("a an and as at by for from in of on or the to with".split())
MAX_PREFIX_LENGTH = 40
# Pages show the start and the end of a long name, because names often differ only at the end.
SHOWN_START, SHOWN_END = 200, 100
# A word with its apostrophe, but without what a hyphen joins to it: "Avenger's", "Anti-Magic"
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_TOKEN = re.compile(r"[\w':.+-]*")
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
    """Return specialization and class as a reader expects them, for example "Frost Mage"; empty if unknown.

    The specialization may already end with the class, also in one word, as in "Unholy Deathknight".
    """
    key = class_of(class_name, specialization)
    label = key.replace("_", " ").title() or known(class_name)
    spec = known(specialization)
    if label:
        in_any_form = " ?".join(map(re.escape, label.split()))
        spec = re.sub(rf"(^| ){in_any_form}$", "", spec, flags=re.IGNORECASE)
    return f"{spec} {label}".strip()


def known(text: str) -> str:
    """Return a text of a report as a title, or an empty text if it is a placeholder."""
    return "" if text.strip().lower() in UNKNOWN else titled(text.strip())


def is_token(name: str) -> bool:
    """Return whether a name is a token of the simulator: lower case without spaces, unlike names of the game."""
    return name == name.lower() and _TOKEN.fullmatch(name) is not None


def titled(text: str) -> str:
    """Return a token as a title, for example "Winds of Winter"; other texts stay unchanged."""
    if not is_token(text):
        return text
    words = text.replace("_", " ").split(" ")
    last = len(words) - 1
    return " ".join(
        word if word in SMALL_WORDS and 0 < place < last else _WORD.sub(lambda found: found[0].capitalize(), word)
        for place, word in enumerate(words)
    )


def school_of(text: str) -> str:
    """Return the key of a school that has a colour: the first one in the text, or an empty text."""
    found = [(text.lower().find(school), school) for school in SCHOOLS if school in text.lower()]
    return min(found)[1] if found else ""


def slot_of(text: str) -> str:
    """Return the label of an item's slot."""
    return SLOTS.get(text, text.replace("_", " ").capitalize() if is_token(text) else text)


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
