"""Texts that fit into a picture: untrusted, of any length, in any script."""

import unicodedata
from bisect import bisect_right
from functools import cache
from pathlib import Path

from django.conf import settings
from PIL import ImageFont
from PIL.ImageFont import FreeTypeFont

FONTS = Path(settings.BASE_DIR) / "static" / "fonts"
ELLIPSIS = "…"
# Longer names are cut before they are measured.
MAX_CHARACTERS = 300


@cache
def font(size: int, *, bold: bool = False) -> FreeTypeFont:
    """Return the font in a size. Characters that it lacks are drawn as boxes."""
    name = "DejaVuSansCondensed-Bold.ttf" if bold else "DejaVuSansCondensed.ttf"
    return ImageFont.truetype(FONTS / name, size)


def clean(text: str) -> str:
    """Return a text on one line, without control characters and stacked accents, which could cover other texts."""
    composed = unicodedata.normalize("NFC", " ".join(text[: 2 * MAX_CHARACTERS].split()))
    visible = (one for one in composed if one.isprintable() and unicodedata.category(one)[0] != "M")
    return "".join(visible)[:MAX_CHARACTERS].strip()


def is_left_to_right(text: str) -> bool:
    """Return whether all characters of a text are read from left to right."""
    return not any(unicodedata.bidirectional(one) in ("R", "AL") for one in text)


def fit(text: str, face: FreeTypeFont, width: float) -> str:
    """Return a clean text, cut with an ellipsis if it is wider than `width` pixels."""
    if face.getlength(text) <= width:
        return text
    return text[: _fitting(text, face, width - face.getlength(ELLIPSIS))].rstrip() + ELLIPSIS


def wrap(text: str, face: FreeTypeFont, width: float) -> list[str]:
    """Return a clean text on at most two lines, cut with an ellipsis."""
    if face.getlength(text) <= width:
        return [text]
    end = _fitting(text, face, width)
    space = text.rfind(" ", 0, end + 1)
    end = space if space > 0 else max(end, 1)
    return [text[:end].rstrip(), fit(text[end:].lstrip(), face, width)]


def _fitting(text: str, face: FreeTypeFont, width: float) -> int:
    """Return how many of the first characters fit into `width` pixels."""
    return bisect_right(range(1, len(text) + 1), width, key=lambda end: face.getlength(text[:end]))
