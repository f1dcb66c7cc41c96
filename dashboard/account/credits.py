"""Credits of an account: balances, credit history and monthly usage, also as CSV."""

import csv
from collections.abc import Iterable, Iterator
from datetime import UTC, date
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone

from billing import ledger, statement
from billing.models import Entry
from clients import accounts
from dashboard.access import AccountAccess, account_page
from dashboard.paging import page_of
from jobs.artifacts import retention, storage
from jobs.lifecycle import usage
from jobs.results import queries
from simc.csv_report import harmless
from simservice.api.times import iso

GROUPS = (("day", "Day"), ("client", "Client"), ("build", "Build"))
ENTRY_COLUMNS = ("at", "change", "credits", "from", "to", "job", "grant", "what")
USAGE_COLUMNS = ("day", "client", "build", "jobs", "simulations", "seconds", "credits")


@account_page()
def balance(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Show the balances and the credit history."""
    entries = Entry.objects.filter(account=access.account).select_related("grant")
    page = page_of(request, entries, account_id=access.account.pk)
    titles = queries.titles_of(access.account, [one.job_id for one in page.rows if one.job_id])
    history = [
        {
            "entry": one,
            "description": statement.description(one),
            "change": statement.change(one),
            "title": titles.get(one.job_id or 0),
        }
        for one in page.rows
    ]
    context = {
        "section": "credits",
        "balances": ledger.balances(access.account),
        "page": page,
        "entries": history,
        "retention_days": retention.days_of(access.account.plan),
        "was_denied_welcome_credits": access.may_manage and accounts.was_denied_welcome_credits(access.account),
    }
    return render(request, "dashboard/credits.html", context)


@account_page()
def used(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Show the usage of a month by day, client or build."""
    month = _requested_month(request)
    group = request.GET.get("by", "day")
    if group not in dict(GROUPS):
        raise Http404
    rows = usage.by_group(access.account, month, group)
    context = {
        "section": "credits",
        "month": month,
        "earlier": usage.previous_month(month),
        "later": usage.next_month(month) if month < _this_month() else None,
        "group": group,
        "groups": GROUPS,
        "used": rows,
        "most": max((one.credits for one in rows), default=0),
        "total": usage.total(access.account, month),
        "stored_bytes": storage.stored_bytes(access.account),
        "retention_days": retention.days_of(access.account.plan),
    }
    return render(request, "dashboard/usage.html", context)


def _this_month() -> date:
    """Return the first day of the current month (UTC)."""
    return timezone.now().astimezone(UTC).date().replace(day=1)


def _requested_month(request: HttpRequest) -> date:
    """Return the first day of the requested month, by default the current one. Raises Http404."""
    text = request.GET.get("month", "")
    if not text:
        return _this_month()
    try:
        month = date.fromisoformat(f"{text}-01")
    except ValueError:
        raise Http404 from None
    if not date(2000, 1, 1) <= month <= _this_month():
        raise Http404
    return month


@account_page()
def entries_csv(request: HttpRequest, access: AccountAccess) -> StreamingHttpResponse:  # noqa: ARG001
    """Return all entries of the account, newest first."""
    rows = (
        (
            iso(entry.at),
            statement.change(entry),
            entry.credits,
            entry.source,
            entry.target,
            entry.job_id or "",
            harmless(entry.grant.title) if entry.grant else "",
            harmless(statement.description(entry)),
        )
        for entry in statement.each_entry(access.account)
    )
    return _table(f"{access.account}-credits.csv", ENTRY_COLUMNS, rows)


@account_page()
def usage_csv(request: HttpRequest, access: AccountAccess) -> StreamingHttpResponse:
    """Return the usage of a month by day, client and build."""
    month = _requested_month(request)
    rows = (
        (
            row.day,
            harmless(row.client.name),
            harmless(f"{row.build.git_branch} {row.build.commit}") if row.build else "",
            row.jobs,
            row.runs,
            f"{row.sim_ms / 1000:.3f}",
            row.credits,
        )
        for row in usage.each_row(access.account, month)
    )
    return _table(f"{access.account}-usage-{month:%Y-%m}.csv", USAGE_COLUMNS, rows)


class _LineWriter:
    """File object for `csv.writer` that returns each line."""

    def write(self, line: str) -> str:
        return line


def _table(name: str, columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> StreamingHttpResponse:
    """Return a streamed CSV file (RFC 4180)."""
    writer = csv.writer(_LineWriter(), lineterminator="\r\n")

    def lines() -> Iterator[str]:
        yield writer.writerow(columns)
        for row in rows:
            yield writer.writerow(row)

    response = StreamingHttpResponse(lines(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
