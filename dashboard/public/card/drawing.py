"""The drawing of a job's picture: 1200 by 630 pixels, always dark, readable at a third of its size.

Texts are untrusted, of any length and in any script.
"""

import io
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from django.conf import settings
from PIL import Image, ImageDraw, ImageFont
from PIL.ImageFont import FreeTypeFont

from dashboard.public.card.content import Bar, Card, Headline
from dashboard.results.headline import Spread
from dashboard.results.scale import Scale
from jobs.results.verdicts import EVEN, GAIN, LOSS, number

FONTS = Path(settings.BASE_DIR) / "static" / "fonts"
ELLIPSIS = "…"
# Longer texts are cut before they are measured.
MAX_CHARACTERS = 300
SIZE = (1200, 630)
LEFT, RIGHT, BOTTOM = 76, 1136, 574
# The column with the best entries or the spread
COLUMN, NAMES = 532, 572
ROW_HEIGHT = 80
GROUND, INK, MUTED, EMPTY = "#14171b", "#e8e6e1", "#a3abb5", "#31363d"
ACCENT = "#8bb9f0"
# The ground of static/icon.svg
MARK = "#3b4cc0"
BARS = {GAIN: "#4a9d72", LOSS: "#c05a52", EVEN: "#7c848e"}
TEXTS = {GAIN: "#79cd9f", LOSS: "#f19a92", EVEN: MUTED}
CLASSES = {
    "death knight": "#c41e3a",
    "demon hunter": "#b850d8",
    "druid": "#ff7c0a",
    "evoker": "#33937f",
    "hunter": "#aad372",
    "mage": "#3fc7eb",
    "monk": "#00ff98",
    "paladin": "#f48cba",
    "priest": "#ffffff",
    "rogue": "#fff468",
    "shaman": "#2a8cf0",
    "warlock": "#8788ee",
    "warrior": "#c69b6d",
}
# The first size in which a number fits is used.
NUMBER_SIZES = (112, 92, 72, 52)


def draw(card: Card) -> bytes:
    """Return the picture as PNG."""
    content = io.BytesIO()
    paint(card).save(content, "PNG")
    return content.getvalue()


def paint(card: Card) -> Image.Image:
    """Return the picture."""
    image = Image.new("RGB", SIZE, GROUND)
    canvas = ImageDraw.Draw(image)
    accent = CLASSES.get(card.class_name.casefold(), ACCENT)
    canvas.rectangle((0, 0, 11, SIZE[1]), fill=accent)
    _draw_mark(image)
    _write(canvas, (LEFT + 50, 79), card.brand, font(26, bold=True), width=420)
    _write(canvas, (RIGHT, 79), card.fight, font(26), width=560, fill=MUTED, anchor="rs")
    _draw_title(canvas, card, accent)
    _write(canvas, (LEFT, 324), card.verdict, font(30, bold=True), width=RIGHT - LEFT)
    if card.headline is None:
        _draw_status(canvas, card)
    else:
        _draw_headline(canvas, card.headline)
    _draw_bars(canvas, card.bars)
    if card.spread:
        _draw_spread(canvas, card.spread)
    return image


def _draw_mark(image: Image.Image) -> None:
    """Draw the mark of the service, four times as large and then reduced, which smooths its edges."""
    scale, side = 4.5, 144
    mark = Image.new("RGB", (side, side), GROUND)
    canvas = ImageDraw.Draw(mark)
    canvas.rounded_rectangle((0, 0, side - 1, side - 1), 8 * scale, fill=MARK)
    for x, y in _mark_line():
        canvas.ellipse([edge * scale for edge in (x - 1.5, y - 1.5, x + 1.5, y + 1.5)], fill="#ffffff")
    image.paste(mark.resize((36, 36), Image.Resampling.LANCZOS), (LEFT, 52))


def _mark_line() -> Iterator[tuple[float, float]]:
    """Yield points of the line in static/icon.svg, a curve with two equal halves above a dash, 32 units wide."""
    for step in range(101):
        t = step / 100
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
        x = sum(weight * value for weight, value in zip(weights, (5, 11.5, 11, 16), strict=True))
        y = sum(weight * value for weight, value in zip(weights, (21, 21, 7.5, 7.5), strict=True))
        yield from ((x, y), (32 - x, y), (12.5 + 7 * t, 25.5))


def _draw_title(canvas: ImageDraw.ImageDraw, card: Card, accent: str) -> None:
    face, y = font(54, bold=True), 177
    lines = wrap(clean(card.title), face, RIGHT - LEFT)
    for line in lines:
        canvas.text((LEFT, y), line, INK, face, anchor="ls")
        y += 64
    end = _write(canvas, (LEFT, y - 12), card.specialization, font(30), width=480, fill=accent)
    start = end + 20 if end > LEFT else LEFT
    _write(canvas, (start, y - 12), " · ".join(card.notes), font(30), width=RIGHT - start, fill=MUTED)


def _draw_headline(canvas: ImageDraw.ImageDraw, headline: Headline) -> None:
    """Draw the number with its caption, its margin of error and its difference from the baseline."""
    width = COLUMN - LEFT - 24
    has_last_line = bool(headline.difference or headline.explanation)
    y = BOTTOM - 10 if has_last_line else BOTTOM + 42
    if has_last_line:
        difference = font(34, bold=True)
        end = _write(canvas, (LEFT, y), headline.difference, difference, width=240, fill=TEXTS[headline.kind])
        start = end + 10 if headline.difference else LEFT
        _write(canvas, (start, y), headline.explanation, font(28), width=LEFT + width - start, fill=MUTED)
    end = _write(canvas, (LEFT, y - 52), headline.unit, font(30))
    _write(canvas, (end + 10, y - 52), f"± {headline.error}", font(30), width=LEFT + width - end, fill=MUTED)
    faces = [font(size, bold=True) for size in NUMBER_SIZES]
    face = next((one for one in faces if one.getlength(headline.number) <= width), faces[-1])
    _write(canvas, (LEFT - 4, y - 104), headline.number, face, width=width)
    _write(canvas, (LEFT, y - 208), headline.caption, font(28), fill=MUTED)


def _draw_bars(canvas: ImageDraw.ImageDraw, bars: Sequence[Bar]) -> None:
    for place, bar in enumerate(bars, start=1):
        bottom = BOTTOM - (len(bars) - place) * ROW_HEIGHT
        y = bottom - 30
        _write(canvas, (COLUMN, y), str(place), font(28), fill=MUTED)
        value = fit(bar.value, font(28, bold=True), 240)
        color = INK if bar.kind == EVEN else TEXTS[bar.kind]
        canvas.text((RIGHT, y), value, color, font(28, bold=True), anchor="rs")
        room = RIGHT - NAMES - font(28, bold=True).getlength(value) - 24
        _write_name(canvas, (NAMES, y), bar.name, font(28), width=room)
        end = NAMES + max(round((RIGHT - NAMES) * min(bar.width, 1.0)), 6)
        canvas.rounded_rectangle((NAMES, bottom - 12, end, bottom), 3, fill=BARS[bar.kind])


def _write_name(
    canvas: ImageDraw.ImageDraw, at: tuple[float, float], name: str, face: FreeTypeFont, *, width: float
) -> None:
    """Write a name whose prefix, such as "Gem:", is grey, unless it is read from right to left."""
    text = fit(clean(name), face, width)
    prefix, colon, rest = text.partition(": ")
    is_right_to_left = any(unicodedata.bidirectional(one) in ("R", "AL") for one in text)
    if not colon or is_right_to_left:
        canvas.text(at, text, INK, face, anchor="ls")
        return
    canvas.text(at, f"{prefix}:", MUTED, face, anchor="ls")
    canvas.text((at[0] + face.getlength(f"{prefix}: "), at[1]), rest, INK, face, anchor="ls")


def _draw_spread(canvas: ImageDraw.ImageDraw, spread: Spread) -> None:
    """Draw the range as a pale bar, the interval of the mean as a bright one, and the median as a line."""
    top, height = 470, 24
    axis = Scale(low=spread.low or 0.0, high=spread.high or 0.0)

    def x(value: float) -> float:
        return COLUMN + (RIGHT - COLUMN) * axis.part(value)

    canvas.rounded_rectangle((COLUMN, top, RIGHT, top + height), 4, fill=EMPTY)
    low, high = x(spread.bottom), x(spread.top)
    canvas.rectangle((low, top, max(high, low + 4), top + height), fill=ACCENT)
    _write_figure(canvas, COLUMN, "Minimum", axis.low, anchor="l")
    _write_figure(canvas, RIGHT, "Maximum", axis.high, anchor="r")
    if spread.median is not None:
        canvas.line((x(spread.median), top - 8, x(spread.median), top + height + 8), fill=INK, width=3)
        _write_figure(canvas, (COLUMN + RIGHT) / 2, "Median", spread.median, anchor="m")


def _write_figure(canvas: ImageDraw.ImageDraw, x: float, label: str, value: float, *, anchor: str) -> None:
    _write(canvas, (x, 536), label, font(24), fill=MUTED, anchor=f"{anchor}s")
    _write(canvas, (x, 572), number(value), font(28), width=190, anchor=f"{anchor}s")


def _draw_status(canvas: ImageDraw.ImageDraw, card: Card) -> None:
    lines = wrap(clean(card.reason), font(30), RIGHT - LEFT)
    for number_of_line, line in enumerate(reversed(lines)):
        canvas.text((LEFT, 568 - 42 * number_of_line), line, MUTED, font(30), anchor="ls")
    _write(canvas, (LEFT, 506 - 42 * (len(lines) - 1)), card.status, font(72, bold=True))


def _write(
    canvas: ImageDraw.ImageDraw,
    at: tuple[float, float],
    text: str,
    face: FreeTypeFont,
    *,
    width: float = RIGHT - LEFT,
    fill: str = INK,
    anchor: str = "ls",
) -> float:
    """Write a text on one line, cut to a width in pixels. Return where it ends, if it begins at the left."""
    shown = fit(clean(text), face, width)
    canvas.text(at, shown, fill, face, anchor=anchor)
    return at[0] + face.getlength(shown)


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
