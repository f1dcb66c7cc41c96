"""The CSV table of a job: one row per actor, then one per profileset (`docs/reference/api.md#csv-report`)."""

import csv
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TextIO

from simc.reports import Report, Statistics

COLUMNS = ("name", "dps_mean", "dps_min", "dps_max", "dps_std_dev", "dps_mean_std_dev")
# Spreadsheets treat a cell that begins like this as a formula (`docs/reference/api.md#csv-report`). An
# apostrophe is marked too, so that no two names have the same cell.
_MARKED = re.compile(r"[=+\-@\t\r']")


def write(report: Report, target: TextIO, *, every_actor: bool) -> None:
    """Write a report's table in the format of RFC 4180, with all actors or only the first one.

    `target` must not translate line ends.
    """
    table = csv.writer(target, lineterminator="\r\n")
    table.writerow(COLUMNS)
    for name, statistics in _entries(report, every_actor=every_actor):
        table.writerow(_row(name, statistics))


def _entries(report: Report, *, every_actor: bool) -> Iterator[tuple[str, Statistics]]:
    """Yield the names and figures of the rows: actors in the profile's order, profilesets from best to worst."""
    for player in report.players if every_actor else filter(None, [report.baseline]):
        yield player.name, player.dps
    for entry in sorted(report.profilesets, key=lambda entry: (-entry.statistics.mean, entry.name)):
        yield entry.name, entry.statistics


def _row(name: str, statistics: Statistics) -> tuple[str, ...]:
    figures = (statistics.mean, statistics.min, statistics.max, statistics.stddev, statistics.mean_stddev)
    return (harmless(name), *map(_plain, figures))


def harmless(name: str) -> str:
    """Return an untrusted text as a cell that no spreadsheet treats as a formula.

    A cell that begins with an apostrophe is the text after it; any other cell is the text itself.
    """
    return f"'{name}" if _MARKED.match(name) else name


def _plain(figure: float) -> str:
    """Return a number in decimal digits, exactly and without an exponent."""
    return f"{Decimal(repr(figure)):f}"
