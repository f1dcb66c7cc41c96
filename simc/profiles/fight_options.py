"""The options of a profile that describe the fight and its precision: read from the text, and written into it.

Only options of the whole simulation are read, not those of profilesets. The last one wins, wherever it stands, also
after a copy (`docs/reference/simulator-command-line.md#order-and-values`). An included file can set any of them, so
what stands before the last include is not known to be in effect.
"""

import re
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from simc.profiles.analysis import MAX_OPTIONS
from simc.profiles.grammar import BOM, Token, token_pairs

OPTIONS = frozenset(
    {"fight_style", "desired_targets", "max_time", "vary_combat_length", "target_error", "iterations"}
)
# The value with which `target_error` and `iterations`, which exclude each other, have no effect.
OFF = "0"
PRECISIONS = frozenset({"target_error", "iterations"})
_WORD = re.compile(r"[^ \t\r]+")
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}", re.ASCII)


class _Found(NamedTuple):
    """The options in effect, and the line of the last include, 0 without one."""

    options: dict[str, Token]
    include: int


def read(text: str) -> dict[str, str]:
    """Return the values in effect by option, as they are written. A profile with too many options has none."""
    found = _find(text)
    return {name: token.value or "" for name, token in found.options.items()} if found else {}


def number_of(value: str) -> float | None:
    """Return a value that is a plain number, or None for any other, which the simulator may read differently."""
    return float(value) if _NUMBER.fullmatch(value) else None


def write(text: str, values: Mapping[str, str]) -> str:
    """Return a profile with other values of some options. Everything else stays the same, byte for byte.

    A value is replaced where it stands; an option that is missing gets a line of its own. The line comes first, so
    that it precedes the options of actors and cannot override those of profilesets, or after the last include. A
    profile with too many options, which cannot run, is returned as it is.
    """
    found = _find(text)
    if found is None:
        return text
    mark = BOM if text.startswith(BOM) else ""
    lines = text.removeprefix(BOM).split("\n")
    added = []
    for name, value in values.items():
        token, option = found.options.get(name), f"{name}={value}"
        if token is None:
            if found.include or value != OFF or name not in PRECISIONS:
                added.append(option)
        elif token.value != value:
            lines[token.line - 1] = _replaced(lines[token.line - 1], token, option)
    if added and found.include:
        lines[found.include - 1] = _followed_by(lines[found.include - 1], added)
        added = []
    end = "\r" if lines[0].endswith("\r") else ""
    return mark + "\n".join([*(f"{option}{end}" for option in added), *lines])


def _find(text: str) -> _Found | None:
    """Return what is in effect, or None if the profile has more options than any that can run."""
    source = token_pairs(text)
    options: dict[str, Token] = {}
    include = 0
    for line, written in islice(source, MAX_OPTIONS):
        name, equals, _ = written.partition("=")
        if not equals or name == "input":
            include = line
            options.clear()
        elif name in OPTIONS:
            options[name] = Token(line, written)
    return _Found(options, include) if next(source, None) is None else None


def _replaced(line: str, token: Token, option: str) -> str:
    """Return a line with another option instead of a token, or followed by it if the line is quoted."""
    if '"' in line:
        return _followed_by(line, [option])
    *_, last = (word for word in _WORD.finditer(line) if word[0] == token.text)
    return f"{line[: last.start()]}{option}{line[last.end() :]}"


def _followed_by(line: str, options: list[str]) -> str:
    end = "\r" if line.endswith("\r") else ""
    return "\n".join([line, *(f"{option}{end}" for option in options)])
