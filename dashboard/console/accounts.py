"""Accounts by jobs in the last hour, and one account with the actions of its admin page."""

from django.contrib import admin
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from billing import ledger
from billing.models import Account
from clients.admin import CorrectionForm, GrantForm, SuspensionForm
from clients.models import AuditEvent
from jobs.lifecycle import usage
from jobs.models import Job
from jobs.operations import last_hour
from simservice.admin.base import may_view
from simservice.postgresql.connections import StatementTimeout, statement_timeout

MAX_ACCOUNTS = 50
MAX_ROWS = 15
TIMEOUT_MS = 3_000


@require_safe
@permission_required(["billing.view_account", "jobs.view_job"], raise_exception=True)
def accounts(request: HttpRequest) -> HttpResponse:
    """List the accounts with the most jobs in the last hour, with their errors and unfinished jobs."""
    try:
        with statement_timeout(TIMEOUT_MS):
            found = last_hour.accounts(limit=MAX_ACCOUNTS)
    except StatementTimeout:
        found = None
    context = {
        **admin.site.each_context(request),
        "title": "Accounts",
        "loads": found,
        "max_accounts": MAX_ACCOUNTS,
    }
    return render(request, "console/accounts.html", context)


@require_safe
@permission_required("billing.view_account", raise_exception=True)
def account(request: HttpRequest, account_id: int) -> HttpResponse:
    """Show an account, with forms for the actions of its admin page."""
    found = get_object_or_404(Account.objects.select_related("plan"), pk=account_id)
    may_view_jobs = may_view(admin.site, request, Job)
    jobs, changes = Job.objects.filter(account=found).defer("summary"), AuditEvent.objects.filter(account=found)
    context = {
        **admin.site.each_context(request),
        "title": found.name,
        "account": found,
        "plan": found.plan,
        "balances": ledger.balances(found),
        "unfinished": usage.snapshot(found) if may_view_jobs else None,
        "jobs": list(jobs.order_by("-id")[:MAX_ROWS]) if may_view_jobs else None,
        "changes": list(changes.order_by("-pk")[:MAX_ROWS]) if may_view(admin.site, request, AuditEvent) else None,
        "members": list(found.memberships.select_related("user").order_by("pk")[:MAX_ROWS])
        if request.user.has_perm("clients.view_membership")
        else None,
        "max_rows": MAX_ROWS,
        "grant": GrantForm(auto_id="grant_%s"),
        "correction": CorrectionForm(auto_id="correction_%s"),
        "suspension": SuspensionForm(),
        "minute_credits": found.plan.credits_per_second * 60,
    }
    return render(request, "console/account.html", context)
