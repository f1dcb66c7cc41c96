"""Characters that a reader cannot see: what they are, and how messages show them."""

import re

# Controls other than tab and line breaks, byte order marks, zero-width characters, marks of direction, all blanks
# besides the space, and letters without a shape. Variation selectors belong to emoji and are left alone.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180e\u2000-\u200f"
    "\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Return a text in which each invisible character is written as `<U+FEFF>`."""
    return _INVISIBLE.sub(lambda found: f"<{code_of(found[0])}>", text)


def first_invisible(text: str) -> str | None:
    """Return the first invisible character of a text, or None."""
    found = _INVISIBLE.search(text)
    return found[0] if found else None


def code_of(character: str) -> str:
    """Return a character's code point, such as `U+FEFF`."""
    return f"U+{ord(character):04X}"
