"""The line of a profile that an error message of the simulator is about.

Messages name slots, options, items and values, but no lines
(`docs/reference/simulator-command-line.md#messages`).
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from simc.profiles.actors import CLASSES, ITEM_SLOTS
from simc.profiles.grammar import profileset_name, tokens
from simc.profiles.policy import is_profileset

_OPTION = re.compile(r"\bOption '([^']+)'(?: with value '([^']*)')?", re.IGNORECASE)
_SLOT = re.compile(r"\bslot[ :=]+'?([a-z]+_?[a-z]*[0-9]?)\b", re.IGNORECASE)
_ITEM = re.compile(r"\bitem(?: id)?[ :=]+'?([0-9]+)\b", re.IGNORECASE)
_ACTOR = re.compile(r"\b(?:Actor|Player) '([^']+)'", re.IGNORECASE)
_PROFILESET = re.compile(r"\bProfileset '([^']+)'", re.IGNORECASE)
_QUOTED = re.compile(r"'([^']+)'")
_ITEM_ID = re.compile(r"(?:^|,)id=([0-9]+)")
_SHOWN_CHARACTERS = 40
_SHORT_CHARACTERS = 3


class Place(NamedTuple):
    """A line of a text, and the option on it as a phrase."""

    line: int
    subject: str


class _Option(NamedTuple):
    """An option with the actor and the profileset that it belongs to."""

    line: int
    name: str
    value: str
    actor: str | None
    profileset: str | None


def locate(message: str, text: str) -> Place | None:
    """Return the place of a text that a message is about, or None if it names nothing that the text contains."""
    options = list(_options(text))
    named = _ACTOR.search(message)
    if named and any(option.actor == named[1] for option in options):
        options = [option for option in options if option.actor == named[1]]
    profileset = _PROFILESET.search(message)
    # A message that names no profileset is about the base, unless only a profileset has the option.
    own = [option for option in options if option.profileset == (profileset[1] if profileset else None)]
    for candidates in (own, options):
        for matches in _tests(message):
            # The last value of an option wins.
            if found := next((option for option in reversed(candidates) if matches(option)), None):
                name = found.name[:_SHOWN_CHARACTERS]
                item = _item_id(found) if found.name in ITEM_SLOTS else None
                return Place(found.line, f"{name}, item {item}" if item else name)
    return None


def _tests(message: str) -> Iterator[Callable[[_Option], bool]]:
    """Yield tests for the option that a message is about, the most certain first."""
    if option := _OPTION.search(message):
        name, value = option[1].rstrip("+"), option[2]
        yield lambda each: each.name == name and each.value == value
        yield lambda each: each.name == name
    if slot := _SLOT.search(message):
        yield lambda each: each.name == slot[1].lower()
    if item := _ITEM.search(message):
        yield lambda each: _item_id(each) == item[1]
    for quoted in _QUOTED.findall(message):
        if len(quoted) > _SHORT_CHARACTERS:
            yield lambda each, quoted=quoted: quoted in each.value and each.name not in CLASSES  # type: ignore[misc]


def _options(text: str) -> Iterator[_Option]:
    actor = None
    for token in tokens(text):
        name, value = token.name or "", token.value or ""
        key = profileset_name(name) if is_profileset(name) else None
        if key is not None:
            name, _, value = value.partition("=")
        elif name in CLASSES or name == "copy":
            actor = value.partition(",")[0]
        if name:
            yield _Option(token.line, name.rstrip("+"), value, actor, key and key[0])


def _item_id(option: _Option) -> str | None:
    found = _ITEM_ID.search(option.value)
    return found[1] if found else None
