"""The CSV table of a run: one row for each actor, then one for each profileset (specification, `artifacts.csv`)."""

import csv
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TextIO

from jobs.simulator.reports import Report, Statistics

COLUMNS = ("name", "dps_mean", "dps_min", "dps_max", "dps_std_dev", "dps_mean_std_dev")
# What makes a spreadsheet take a cell for a formula (contract, section 6).
_FORMULA = re.compile(r"[=+\-@\t\r]")


def write(report: Report, target: TextIO, *, every_actor: bool) -> None:
    """Write a report's table as RFC 4180 has it; without `every_actor` the first actor stands for all.

    `target` must leave line ends as they are.
    """
    table = csv.writer(target, lineterminator="\r\n")
    table.writerow(COLUMNS)
    for name, statistics in _lines(report, every_actor=every_actor):
        table.writerow(_row(name, statistics))


def _lines(report: Report, *, every_actor: bool) -> Iterator[tuple[str, Statistics]]:
    """Yield what the rows are made of: actors in the profile's order, profilesets from the best one down."""
    for player in report.players if every_actor else filter(None, [report.baseline]):
        yield player.name, player.dps
    for found in sorted(report.profilesets, key=lambda found: (-found.statistics.mean, found.name)):
        yield found.name, found.statistics


def _row(name: str, found: Statistics) -> tuple[str, ...]:
    figures = (found.mean, found.min, found.max, found.stddev, found.mean_stddev)
    return (harmless(name), *map(_plain, figures))


def harmless(name: str) -> str:
    """Return a text of somebody else's as a cell that no spreadsheet takes for a formula."""
    return f"'{name}" if _FORMULA.match(name) else name


def _plain(figure: float) -> str:
    """Return a number in digits, never in powers of ten, with nothing added and nothing lost."""
    return f"{Decimal(repr(figure)):f}"
