"""The ranking of a job as a CSV table (docs/reference/api.md#ranking-as-csv)."""

import csv
import io
import math
from collections.abc import Iterator
from decimal import Decimal

from django.http import HttpResponse

from dashboard.results.options import Options
from jobs.enums import VerdictKind
from jobs.models import Job
from jobs.results import rankings, verdicts
from jobs.results.rankings import Entry
from jobs.results.verdicts import EVEN, GAIN, LOSS, Compared
from simc.csv_report import harmless

COLUMNS = ("rank", "name", "mean", "error", "change_percent", "margin_percent", "verdict", "stage")
VERDICTS = {GAIN: "better", EVEN: "even", LOSS: "worse", "": "baseline"}


def compared_of(job: Job, options: Options) -> Compared | None:
    """Return a job's variants, or else its actors, compared with the chosen baseline; None without a result."""
    if not job.has_result:
        return None
    variants = verdicts.variants_of(job.summary, entries=rankings.entries_of(job), base=options.base)
    return variants or verdicts.actors_of(job.summary, base=options.base)


def response_of(job: Job, compared: Compared) -> HttpResponse:
    """Respond with all entries, whatever the filters."""
    content = io.StringIO()
    table = csv.writer(content, lineterminator="\r\n")
    table.writerow(COLUMNS)
    table.writerows(_rows(compared))
    response = HttpResponse(content.getvalue(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="ranking-{job.pk}.csv"'
    return response


def _rows(compared: Compared) -> Iterator[tuple[str | int, ...]]:
    """Yield a row for each entry, best first, with the profile's own result in its place."""
    kind = compared.verdict().kind
    for entry in sorted([compared.own, *compared.entries], key=lambda entry: (-entry.mean, entry.number)):
        yield (
            entry.number or "",
            harmless(entry.name),
            _number(entry.mean),
            _number(entry.error),
            _number(compared.change_of(entry)),
            _number(compared.margin_of(entry)),
            _verdict(entry, compared, kind),
            entry.stage or "",
        )


def _verdict(entry: Entry, compared: Compared, kind: VerdictKind) -> str:
    """Return the verdict about the best entry or those tied for best, or else how an entry compares."""
    if any(entry is leader for leader in compared.leaders):
        return kind.value
    return VERDICTS[compared.kind_of(entry)]


def _number(value: float | None) -> str:
    """Return a number without an exponent, empty if it is unknown."""
    return "" if value is None or not math.isfinite(value) else f"{Decimal(repr(round(value, 4))):f}"
