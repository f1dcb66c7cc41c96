"""The CSV table of a job: one row per actor, then one per profileset (`docs/reference/api.md#csv-report`)."""

import csv
import re
from decimal import Decimal
from itertools import chain
from typing import TextIO

from simc.reports import Report, best_first

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
    players = report.players if every_actor else filter(None, [report.baseline])
    entries = chain(
        ((player.name, player.dps) for player in players),
        ((entry.name, entry.statistics) for entry in best_first(report.profilesets)),
    )
    for name, dps in entries:
        # Decimal digits, exactly and without an exponent
        figures = (f"{Decimal(repr(x)):f}" for x in (dps.mean, dps.min, dps.max, dps.stddev, dps.mean_stddev))
        table.writerow((harmless(name), *figures))


def harmless(name: str) -> str:
    """Return an untrusted text as a cell that no spreadsheet treats as a formula.

    A cell that begins with an apostrophe is the text after it; any other cell is the text itself.
    """
    return f"'{name}" if _MARKED.match(name) else name
