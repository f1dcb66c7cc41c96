"""Accounts that have reached a limit of their plan, for the preview of changes of a plan in the admin."""

from django.db.models import Count

from billing.admin import accounts_at_limit
from billing.models import Plan
from jobs.enums import ACTIVE
from jobs.models import Job, StoredBytes


def at_max_active_jobs(plan: Plan) -> int:
    """Return how many of the plan's accounts can submit no job before one of theirs ends. One query."""
    active = Job.objects.filter(status__in=ACTIVE, account__plan=plan).values("account")
    return active.annotate(jobs=Count("pk")).filter(jobs__gte=plan.max_active_jobs).count()


def at_max_stored_bytes(plan: Plan) -> int:
    """Return how many of the plan's accounts can submit no job before files of theirs are removed. One query."""
    if plan.max_stored_bytes is None:
        return 0
    return StoredBytes.objects.filter(account__plan=plan, bytes__gte=plan.max_stored_bytes).count()


accounts_at_limit.update(max_active_jobs=at_max_active_jobs, max_stored_bytes=at_max_stored_bytes)
