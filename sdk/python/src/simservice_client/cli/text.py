"""Text for terminals. Names and messages come from others, and must not control the terminal."""

import unicodedata

# Control characters, invisible ones and marks that change the direction, line separators, and unassigned ones
UNPRINTABLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
WIDE = frozenset({"W", "F"})
ELLIPSIS = "…"


def printable(text: str) -> str:
    r"""Return a text with everything escaped that a terminal would not show as a character.

    >>> printable("Mage\x1b[31m")
    'Mage\\x1b[31m'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) if _is_unprintable(character) else character for character in text)


def width(text: str) -> int:
    """Return the number of columns of a printable text."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def shortened(text: str, columns: int) -> str:
    """Return a printable text that is at most so many columns wide.

    >>> shortened("Scepter", 4)
    'Sce…'
    """
    if width(text) <= columns:
        return text
    kept, room = [], columns - 1
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS


def padded(text: str, columns: int, *, is_right: bool = False) -> str:
    """Return a printable text filled with spaces to a width."""
    spaces = " " * (columns - width(text))
    return spaces + text if is_right else text + spaces


def _is_unprintable(character: str) -> bool:
    return unicodedata.category(character) in UNPRINTABLE


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _columns(character: str) -> int:
    """Return the columns that a character needs: none for one that is drawn over the one before."""
    if unicodedata.combining(character) or unicodedata.category(character) == "Me":
        return 0
    return 2 if unicodedata.east_asian_width(character) in WIDE else 1
