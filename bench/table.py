"""Tables of results, as text."""

from collections.abc import Iterable, Mapping, Sequence

from bench.figures import SCENARIOS, Figure
from bench.results import Measured, Run

MISSING = "-"
Row = Sequence[str]


def of_run(run: Run, previous: Mapping[str, float]) -> str:
    """Return the table of a run: figure, aim, this run, previous run, load before and after, remark."""
    rows = [_row(figure, run.figures[figure.key], previous) for figure in _figures_in(run)]
    return formatted([("figure", "aim", "this run", "previous", "load", "remark"), *rows])


def _row(figure: Figure, measured: Measured, previous: Mapping[str, float]) -> Row:
    loads = [f"{each:.1f}" for pair in measured.load for each in pair]
    return (
        figure.title,
        str(figure.aim or ""),
        judged(figure, measured.value),
        number(previous.get(figure.key)),
        " ".join(loads),
        measured.note,
    )


def of_two_runs(before: Run, after: Run) -> str:
    """Return the table that compares two runs: figure, aim, both values, difference."""
    rows: list[Row] = [("figure", "aim", before.commit, after.commit, "difference")]
    for figure in _figures_in(before, after):
        old, new = before.value_of(figure.key), after.value_of(figure.key)
        values = (number(old), judged(figure, new), difference(old, new))
        rows.append((figure.title, str(figure.aim or ""), *values))
    return formatted(rows)


def _figures_in(*runs: Run) -> list[Figure]:
    """Return the figures that any of the runs contains, in the order of the registry."""
    keys = {key for run in runs for key in run.figures}
    return [figure for scenario in SCENARIOS for figure in scenario.figures if figure.key in keys]


def judged(figure: Figure, value: float | None) -> str:
    """Return a value with its unit and, if the figure has an aim, a mark for whether the value meets it."""
    if value is None:
        return MISSING
    shown = f"{number(value)} {figure.unit}".strip()
    if figure.aim is None:
        return shown
    return f"{shown} {'✓' if figure.aim.is_met_by(value) else '✗'}"


def number(value: float | None) -> str:
    """Return a value with three significant digits, without an exponent."""
    if value is None:
        return MISSING
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}"


def difference(before: float | None, after: float | None) -> str:
    """Return the change in percent, or a dash if it is undefined."""
    if before is None or after is None or not before:
        return MISSING
    return f"{(after / before - 1) * 100:+.0f} %"


def formatted(rows: Iterable[Row]) -> str:
    """Return rows as text with columns separated by two spaces. The first row is the header."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
    rule = "  ".join("-" * width for width in widths)
    return "".join(f"{line.rstrip()}\n" for line in [lines[0], rule, *lines[1:]])
