"""The plot of `bench.steps`: one bar for the steps of a job, one for the CPU time of each program."""

from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any
from xml.sax.saxutils import escape

WIDTH, BAR, ROW = 860, 30, 20
LEFT = 12
COLORS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#9a6700", "#cf222e", "#57606a")
STYLE = """
svg { background: #fff; color: #1f2328; font: 12px system-ui, sans-serif; }
text { fill: currentColor; } .title { font-weight: 600; }
@media (prefers-color-scheme: dark) { svg { background: #0d1117; color: #e6edf3; } }
"""


def draw(measured: Mapping[str, Any]) -> str:
    """Return the SVG of a measurement."""
    times = {name: p50 for name, (p50, _) in measured["steps"].items()}
    titles = ("Time of one job on an idle slot, medians", "CPU time of one job while all slots are busy")
    parts: list[str] = []
    top = 24
    for title, values in zip(titles, (times, measured["cpu"]), strict=True):
        parts += _bar(f"{title}: {sum(values.values()):.1f} ms", values, top=top)
        top += BAR + ROW * len(values) + 50
    note = f"Commit {measured['commit']}, {measured['machine']['cores']} cores, a simulator that does no work"
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" role="img">\n',
            "<title>Where the time of one job goes</title>\n",
            f"<style>{STYLE}</style>\n",
            *parts,
            f'<text x="{LEFT}" y="{top - 12}">{escape(note)}</text>\n</svg>\n',
        ]
    )


def _bar(title: str, values: Mapping[str, float], *, top: int) -> Iterator[str]:
    """Yield a bar with one segment for each value, and the key below it."""
    yield f'<text x="{LEFT}" y="{top - 8}" class="title">{escape(title)}</text>\n'
    left, scale = float(LEFT), (WIDTH - 2 * LEFT) / sum(values.values())
    for number, (color, (name, value)) in enumerate(zip(cycle(COLORS), values.items(), strict=False)):
        label, y = f"{value:.1f} ms  {name}", top + BAR + ROW * (number + 1)
        yield f'<rect x="{left:.1f}" y="{top}" width="{value * scale:.1f}" height="{BAR}" fill="{color}"/>'
        yield f'<rect x="{LEFT}" y="{y - 10}" width="11" height="11" fill="{color}"/>'
        yield f'<text x="{LEFT + 18}" y="{y}">{escape(label)}</text>\n'
        left += value * scale
