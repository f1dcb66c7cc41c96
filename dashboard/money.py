"""An account's credits: what there is, what became of it, and what was used; all of it as CSV too."""

import csv
from collections.abc import Iterable, Iterator
from datetime import UTC, date
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone

from billing import ledger, statement
from billing.models import Entry
from dashboard.access import Place, account_page
from dashboard.paging import page_of
from jobs import queries, usage
from jobs.models import DailyUsage
from jobs.simulator.csv_report import harmless
from simservice.api.fields import iso

GROUPS = (("day", "Day"), ("client", "Client"), ("build", "Build"))
ENTRY_COLUMNS = ("at", "change", "credits", "from", "to", "job", "grant", "what")
USAGE_COLUMNS = ("day", "client", "build", "jobs", "simulations", "seconds", "credits")


@account_page()
def balance(request: HttpRequest, place: Place) -> HttpResponse:
    """Show the balance by source, and the book in words."""
    entries = Entry.objects.filter(account=place.account).select_related("grant")
    page = page_of(request, entries, account_id=place.account.pk)
    titles = queries.titles_of(place.account, [one.job_id for one in page.rows if one.job_id])
    told = [
        {
            "entry": one,
            "sentence": statement.sentence(one),
            "change": statement.change(one),
            "title": titles.get(one.job_id or 0),
        }
        for one in page.rows
    ]
    balances = ledger.balances(place.account)
    context = {"section": "credits", "balances": balances, "page": page, "entries": told}
    return render(request, "dashboard/credits.html", context)


@account_page()
def used(request: HttpRequest, place: Place) -> HttpResponse:
    """Show what a month's jobs used, by day, client or build."""
    month = asked_month(request)
    group = request.GET.get("by", "day")
    if group not in dict(GROUPS):
        raise Http404
    found = usage.by_group(place.account, month, group)
    context = {
        "section": "credits",
        "month": month,
        "earlier": usage.previous_month(month),
        "later": usage.next_month(month) if month < this_month() else None,
        "group": group,
        "groups": GROUPS,
        "used": found,
        "most": max((one.credits for one in found), default=0),
        "total": usage.total(place.account, month),
    }
    return render(request, "dashboard/usage.html", context)


def this_month() -> date:
    """Return the first day of the current month (UTC)."""
    return timezone.now().astimezone(UTC).date().replace(day=1)


def asked_month(request: HttpRequest) -> date:
    """Return the first day of the month that an address names, the current one if it names none. Raises Http404."""
    text = request.GET.get("month", "")
    if not text:
        return this_month()
    try:
        month = date.fromisoformat(f"{text}-01")
    except ValueError:
        raise Http404 from None
    if not date(2000, 1, 1) <= month <= this_month():
        raise Http404
    return month


@account_page()
def entries_csv(request: HttpRequest, place: Place) -> StreamingHttpResponse:  # noqa: ARG001
    """Send the whole book of the account, the newest entry first."""
    rows = (entry_row(one) for one in ledger.each_entry(place.account))
    return table(f"{place.account}-credits.csv", ENTRY_COLUMNS, rows)


@account_page()
def usage_csv(request: HttpRequest, place: Place) -> StreamingHttpResponse:
    """Send what a month's jobs used, by day, client and build at once."""
    month = asked_month(request)
    rows = (usage_row(one) for one in usage.each_row(place.account, month))
    return table(f"{place.account}-usage-{month:%Y-%m}.csv", USAGE_COLUMNS, rows)


def entry_row(entry: Entry) -> tuple[Any, ...]:
    """Return an entry as the cells of a table."""
    return (
        iso(entry.at),
        statement.change(entry),
        entry.credits,
        entry.source,
        entry.target,
        entry.job_id or "",
        harmless(entry.grant.title) if entry.grant else "",
        harmless(statement.sentence(entry)),
    )


def usage_row(found: DailyUsage) -> tuple[Any, ...]:
    """Return a count as the cells of a table."""
    build = f"{found.build.git_branch} {found.build.commit}" if found.build else ""
    seconds = f"{found.sim_ms / 1000:.3f}"
    return (found.day, harmless(found.client.name), harmless(build), found.jobs, found.runs, seconds, found.credits)


class Lines:
    """What csv writes to: returns each line instead of keeping it."""

    def write(self, line: str) -> str:
        return line


def table(name: str, columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> StreamingHttpResponse:
    """Return a CSV file (RFC 4180) that is made while it is sent."""
    writer = csv.writer(Lines(), lineterminator="\r\n")

    def lines() -> Iterator[str]:
        yield writer.writerow(columns)
        for row in rows:
            yield writer.writerow(row)

    response = StreamingHttpResponse(lines(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
