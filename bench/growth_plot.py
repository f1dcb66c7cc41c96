"""The plot of `bench.growth`: one panel for each operation, one line for each dimension, logarithmic axes."""

import math
from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

COLUMNS = 4
WIDTH, HEIGHT = 215, 170
LEFT, TOP, RIGHT, BOTTOM = 38, 26, 12, 24
HEAD = 58
LEGEND_STEP = 215
# Milliseconds at the bottom and at the top of each panel.
LOWEST, HIGHEST = 0.1, 1_000.0
TITLES = {"waiting": "waiting jobs", "stored": "stored jobs", "accounts": "accounts", "endpoints": "endpoints"}
STYLE = """
svg { background: #fff; color: #1f2328; font: 12px system-ui, sans-serif; }
text { fill: currentColor; } .small { font-size: 10px; opacity: .75; } .key { font-size: 11px; }
.title { font-weight: 600; }
.grid { stroke: currentColor; stroke-opacity: .15; } polyline { fill: none; stroke-width: 2; }
.waiting { stroke: #0969da; fill: #0969da; } .stored { stroke: #bc4c00; fill: #bc4c00; }
.accounts { stroke: #1a7f37; fill: #1a7f37; } .endpoints { stroke: #8250df; fill: #8250df; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117; color: #e6edf3; }
.waiting { stroke: #58a6ff; fill: #58a6ff; } .stored { stroke: #f0883e; fill: #f0883e; }
.accounts { stroke: #3fb950; fill: #3fb950; } .endpoints { stroke: #bc8cff; fill: #bc8cff; }
}
"""


def draw(measured: Mapping[str, Any]) -> str:
    """Return the SVG of a measurement."""
    dimensions: Mapping[str, Any] = measured["dimensions"]
    operations = list(next(iter(next(iter(dimensions.values())).values())))
    width, height = COLUMNS * WIDTH, HEAD + math.ceil(len(operations) / COLUMNS) * HEIGHT
    panels = (_panel(name, number, dimensions) for number, name in enumerate(operations))
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">\n',
            "<title>Median duration of each operation at 1, 10 and 100 times the size</title>\n",
            f"<style>{STYLE}</style>\n",
            *_legend(measured),
            *panels,
            "</svg>\n",
        ]
    )


def _legend(measured: Mapping[str, Any]) -> Iterator[str]:
    """Yield the heading and the key of the lines' colors."""
    note = f"Median in milliseconds, logarithmic; commit {measured['commit']}"
    yield f'<text x="{LEFT}" y="18" class="title">{escape(note)}</text>\n'
    for number, (name, base) in enumerate(measured["base"].items()):
        x = LEFT + number * LEGEND_STEP
        text = f"{TITLES[name]}: {base:,} to {base * 100:,}"
        yield f'<rect x="{x}" y="32" width="12" height="12" class="{name}"/>'
        yield f'<text x="{x + 18}" y="42" class="key">{escape(text)}</text>\n'


def _panel(operation: str, number: int, dimensions: Mapping[str, Any]) -> str:
    """Return one operation's panel."""
    left, top = number % COLUMNS * WIDTH, HEAD + number // COLUMNS * HEIGHT
    factors = list(next(iter(dimensions.values())))
    lines = (_line(name, [rows[factor][operation][0] for factor in factors]) for name, rows in dimensions.items())
    title = f'<text x="{LEFT}" y="{TOP - 10}" class="title">{escape(operation)}</text>\n'
    return f'<g transform="translate({left},{top})">\n{title}{"".join(_grid(factors))}{"".join(lines)}</g>\n'


def _grid(factors: list[str]) -> Iterator[str]:
    """Yield the horizontal lines with their milliseconds, and the factors below."""
    for power in range(round(math.log10(LOWEST)), round(math.log10(HIGHEST)) + 1):
        y = _y(10.0**power)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        yield f'<text x="{LEFT - 4}" y="{y + 3:.1f}" text-anchor="end" class="small">{10.0**power:g}</text>\n'
    for number, factor in enumerate(factors):
        x = _x(number, len(factors))
        yield f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle" class="small">{factor}&#215;</text>\n'


def _line(name: str, values: list[float]) -> str:
    """Return one dimension's line with its points; each point names its value."""
    points = [(_x(number, len(values)), _y(value), value) for number, value in enumerate(values)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" class="{name}">'
        f"<title>{TITLES[name]}: {value:.2f} ms</title></circle>"
        for x, y, value in points
    )
    return f'<polyline points="{path}" class="{name}" style="fill:none"/>{dots}\n'


def _x(number: int, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (number + 0.5) / count


def _y(value: float) -> float:
    """Return the vertical position of a duration. Values beyond the axis are drawn at its ends."""
    inside = min(max(value, LOWEST), HIGHEST)
    share = math.log(inside / LOWEST) / math.log(HIGHEST / LOWEST)
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)
