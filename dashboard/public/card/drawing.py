"""The drawing of a job's picture: 1200 by 630 pixels, always dark, readable at a third of its size."""

import io
from collections.abc import Iterator, Sequence

from PIL import Image, ImageDraw
from PIL.ImageFont import FreeTypeFont

from dashboard.public.card.content import Card, Headline, Row, Spread, Tone, number
from dashboard.public.card.text import clean, fit, font, is_left_to_right, wrap

SIZE = (1200, 630)
LEFT, RIGHT, BOTTOM = 76, 1136, 574
# The column with the best entries or the spread
COLUMN, NAMES = 532, 572
ROW_HEIGHT = 80
GROUND, INK, MUTED, EMPTY = "#14171b", "#e8e6e1", "#a3abb5", "#31363d"
ACCENT = "#8bb9f0"
# The ground of static/icon.svg
MARK = "#3b4cc0"
BARS: dict[Tone, str] = {"good": "#4a9d72", "bad": "#c05a52", "even": "#7c848e"}
TEXTS: dict[Tone, str] = {"good": "#79cd9f", "bad": "#f19a92", "even": MUTED}
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
    _draw_header(canvas, card)
    _draw_title(canvas, card, accent)
    if card.headline is None:
        _draw_status(canvas, card)
    else:
        _draw_headline(canvas, card.headline)
    _draw_rows(canvas, card.rows)
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


def _draw_header(canvas: ImageDraw.ImageDraw, card: Card) -> None:
    """Draw the brand, and the fight at the right."""
    _write(canvas, (LEFT + 50, 79), card.brand, font(26, bold=True), width=420)
    _write(canvas, (RIGHT, 79), card.fight, font(26), width=560, fill=MUTED, anchor="rs")


def _draw_title(canvas: ImageDraw.ImageDraw, card: Card, accent: str) -> None:
    """Draw the title, and below it the class and the notes."""
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
        end = _write(canvas, (LEFT, y), headline.difference, difference, width=240, fill=TEXTS[headline.tone])
        start = end + 10 if headline.difference else LEFT
        _write(canvas, (start, y), headline.explanation, font(28), width=LEFT + width - start, fill=MUTED)
    end = _write(canvas, (LEFT, y - 52), headline.unit, font(30))
    _write(canvas, (end + 10, y - 52), f"± {headline.error}", font(30), width=LEFT + width - end, fill=MUTED)
    faces = [font(size, bold=True) for size in NUMBER_SIZES]
    face = next((one for one in faces if one.getlength(headline.number) <= width), faces[-1])
    _write(canvas, (LEFT - 4, y - 104), headline.number, face, width=width)
    _write(canvas, (LEFT, y - 208), headline.caption, font(28), fill=MUTED)


def _draw_rows(canvas: ImageDraw.ImageDraw, rows: Sequence[Row]) -> None:
    """Draw the best entries with their bars."""
    for place, row in enumerate(rows, start=1):
        bottom = BOTTOM - (len(rows) - place) * ROW_HEIGHT
        y = bottom - 30
        _write(canvas, (COLUMN, y), str(place), font(28), fill=MUTED)
        value = fit(row.value, font(28, bold=True), 240)
        color = INK if row.tone == "even" else TEXTS[row.tone]
        canvas.text((RIGHT, y), value, color, font(28, bold=True), anchor="rs")
        room = RIGHT - NAMES - font(28, bold=True).getlength(value) - 24
        _write_name(canvas, (NAMES, y), row.name, font(28), width=room)
        end = NAMES + max(round((RIGHT - NAMES) * min(row.width, 1.0)), 6)
        canvas.rounded_rectangle((NAMES, bottom - 12, end, bottom), 3, fill=BARS[row.tone])


def _write_name(
    canvas: ImageDraw.ImageDraw, at: tuple[float, float], name: str, face: FreeTypeFont, *, width: float
) -> None:
    """Write a name whose prefix, such as "Gem:", is grey, unless it is read from right to left."""
    text = fit(clean(name), face, width)
    prefix, colon, rest = text.partition(": ")
    if not colon or not is_left_to_right(text):
        canvas.text(at, text, INK, face, anchor="ls")
        return
    canvas.text(at, f"{prefix}:", MUTED, face, anchor="ls")
    canvas.text((at[0] + face.getlength(f"{prefix}: "), at[1]), rest, INK, face, anchor="ls")


def _draw_spread(canvas: ImageDraw.ImageDraw, spread: Spread) -> None:
    """Draw the range as a pale bar, the interval of the mean as a bright one, and the median as a line."""
    top, height = 470, 24

    def x(value: float) -> float:
        return COLUMN + (RIGHT - COLUMN) * min(max((value - spread.low) / (spread.high - spread.low), 0), 1)

    canvas.rounded_rectangle((COLUMN, top, RIGHT, top + height), 4, fill=EMPTY)
    low, high = x(spread.mean - spread.error), x(spread.mean + spread.error)
    canvas.rectangle((low, top, max(high, low + 4), top + height), fill=ACCENT)
    _write_figure(canvas, COLUMN, "Minimum", spread.low, anchor="l")
    _write_figure(canvas, RIGHT, "Maximum", spread.high, anchor="r")
    if spread.median is not None:
        canvas.line((x(spread.median), top - 8, x(spread.median), top + height + 8), fill=INK, width=3)
        _write_figure(canvas, (COLUMN + RIGHT) / 2, "Median", spread.median, anchor="m")


def _write_figure(canvas: ImageDraw.ImageDraw, x: float, label: str, value: float, *, anchor: str) -> None:
    """Write a figure of the spread with its label below the bar."""
    _write(canvas, (x, 536), label, font(24), fill=MUTED, anchor=f"{anchor}s")
    _write(canvas, (x, 572), number(value), font(28), width=190, anchor=f"{anchor}s")


def _draw_status(canvas: ImageDraw.ImageDraw, card: Card) -> None:
    """Draw the status of a job without a result."""
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
