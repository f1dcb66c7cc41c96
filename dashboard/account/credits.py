"""Credits of an account: balances, credit history and monthly usage, also as CSV."""

from collections.abc import Sequence
from datetime import UTC, date
from typing import Any

from django import forms
from django.contrib import messages
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from billing import ledger, pace, statement
from billing.models import MAX_AMOUNT, Account, Entry
from billing.statement import Kind, Line
from clients import accounts, credit_notices
from clients.members import Role
from dashboard.access import AccountAccess, account_page
from dashboard.account.csv_files import csv_response
from dashboard.forms import form_data
from dashboard.paging import ROWS, Page, id_in_cursor, make_page
from dashboard.results.day_charts import bars_by_day, line_by_day
from jobs.artifacts import retention, storage
from jobs.lifecycle import usage
from jobs.lifecycle.usage import UsageTotals
from jobs.models import Job
from jobs.results import labels, queries
from simc.csv_report import harmless
from simservice.api.times import iso
from simservice.postgresql.connections import snapshot

CHART_DAYS = 90
KINDS = (
    (Kind.ALL, "All"),
    (Kind.JOBS, "Jobs"),
    (Kind.ADDED, "Added"),
    (Kind.REMOVED, "Removed and expired"),
)
GROUPS = (("day", "Day"), ("client", "Client"), ("build", "Build"))
ENTRY_COLUMNS = ("at", "change", "credits", "from", "to", "job", "grant", "what")
USAGE_COLUMNS = ("day", "client", "build", "jobs", "simulations", "seconds", "credits")


@account_page()
def balance(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Show the balances, the pace of spending, and the credit history with a line for each job."""
    kind = request.GET.get("type", "")
    if kind not in statement.KINDS:
        raise Http404
    account, today = access.account, timezone.now().astimezone(UTC).date()
    with snapshot():
        balances, now = ledger.balances(account), statement.balance(account)
        page, lines = _statement(request, account, Kind(kind), now=now)
        charges = [(day.day, day.credits) for day in usage.last_days(account, count=CHART_DAYS)]
        days = [day for day, _ in charges]
        ends = statement.balances_by_day(account, days=days, charges=dict(charges), now=now)
    context = {
        "section": "credits",
        "balances": balances,
        "page": page,
        "lines": lines,
        "kind": kind,
        "kinds": KINDS,
        "chart": line_by_day(ends),
        "pace": pace.pace_of(charges, balances, today=today),
        "retention_days": retention.days_of(account.plan),
        "was_denied_welcome_credits": access.may_manage and accounts.was_denied_welcome_credits(account),
    }
    return render(request, "dashboard/credits.html", context)


class NoticeForm(forms.Form):
    threshold = forms.IntegerField(
        label="Credits",
        required=False,
        min_value=1,
        max_value=MAX_AMOUNT,
        help_text="Leave empty to turn the notice off.",
    )


@account_page(read=Role.OWNER, post=Role.OWNER)
def notice(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Show or change the threshold of the low-credit notice."""
    form = NoticeForm(form_data(request), initial={"threshold": credit_notices.threshold_of(access.account)})
    if form.is_valid():
        if credit_notices.set_threshold(access.account, form.cleaned_data["threshold"], by=access.actor):
            messages.success(request, "Low-credit notice changed.")
        return redirect("credits", access.account.name)
    context = {"section": "credits", "form": form, "available": ledger.available(access.account)}
    return render(request, "dashboard/credits_notice.html", context)


def _statement(
    request: HttpRequest, account: Account, kind: Kind, *, now: int
) -> tuple[Page[Entry], list[dict[str, Any]]]:
    """Return the requested page of the statement, with the balance after each line unless lines are filtered out.

    The links to further pages carry the balance, because entries never change. Raises Http404.
    """
    after = id_in_cursor(request, account_id=account.pk)
    carried = _carried_balance(request, account, after=after)
    entries = statement.lines_of(account, kind).order_by("-pk")
    fetched = list((entries if after is None else entries.filter(pk__lt=after))[: ROWS + 1])
    found = statement.lines(fetched[:ROWS])
    jobs = queries.billed_jobs(account, [line.entry.job_id for line in found if line.entry.job_id])
    rows: list[dict[str, Any]] = []
    # A filtered list lacks lines, so its balances would be wrong.
    left = None if kind else now if after is None else carried
    for line in found:
        job = jobs.get(line.entry.job_id or 0)
        rows.append({"line": line, "job": job, "words": _words(line, job), "balance": left})
        left = None if left is None else left - line.amount
    last_id = fetched[ROWS - 1].pk if len(fetched) > ROWS else None
    page = make_page(
        request,
        fetched[:ROWS],
        account_id=account.pk,
        last_id=last_id,
        carried={"balance": "" if left is None else _signer().sign_object([account.pk, last_id, left])},
    )
    return page, rows


def _carried_balance(request: HttpRequest, account: Account, *, after: int | None) -> int | None:
    """Return the balance in a link to the page of an account that starts after an entry, None if it has none.

    Raises Http404 if it was issued for another page.
    """
    carried = request.GET.get("balance", "")
    if not carried:
        return None
    try:
        *page, left = _signer().unsign_object(carried)
    except signing.BadSignature:
        raise Http404 from None
    if page != [account.pk, after]:
        raise Http404
    return int(left)


def _signer() -> signing.Signer:
    return signing.Signer(sep=".", salt="dashboard.account.credits")


def _words(line: Line, job: Job | None) -> str:
    """Return what a line is for, or how the charge for a job adds up."""
    if line.entry.job_id is None:
        return statement.description(line.entry)
    if line.reserved:
        return f"Reserved: {line.reserved:,} credits"
    expired = f"; {line.expired:,} unused credits expired with their grant" if line.expired else ""
    return f"{labels.bill(job) if job else 'Charge for a job'}{expired}"


@account_page()
def used(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Show the usage of a month by day, client or build, compared with the month before."""
    month = _requested_month(request)
    group = request.GET.get("by", "day")
    if group not in dict(GROUPS):
        raise Http404
    earlier = usage.previous_month(month)
    days = usage.days_of(access.account, month)
    context = {
        "section": "usage",
        "month": month,
        "earlier": earlier,
        "later": usage.next_month(month) if month < _this_month() else None,
        "group": group,
        "groups": GROUPS,
        "used": _with_shares(days if group == "day" else usage.by_group(access.account, month, group)),
        "chart": bars_by_day([(date.fromisoformat(one.label), one.credits) for one in days]),
        "total": usage.total(access.account, month),
        "before": usage.total(access.account, earlier),
        "stored_bytes": storage.stored_bytes(access.account),
        "retention_days": retention.days_of(access.account.plan),
    }
    return render(request, "dashboard/usage.html", context)


def _with_shares(rows: Sequence[UsageTotals]) -> list[dict[str, Any]]:
    """Return rows with the length of their bars, in percent of the longest."""
    most = max((one.credits for one in rows), default=0)
    return [{"used": one, "share": f"{one.credits / most * 100:.1f}%" if most else "0%"} for one in rows]


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
    return csv_response(f"{access.account}-credits.csv", ENTRY_COLUMNS, rows)


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
    return csv_response(f"{access.account}-usage-{month:%Y-%m}.csv", USAGE_COLUMNS, rows)
