"""Admin pages for the ledger.

Accounts are in `clients/admin.py`, which writes the audit log, and plans in `jobs/operations/plan_admin.py`.
"""

from django.contrib import admin

from billing.models import Entry, Grant, Hold
from simservice.admin.base import LargeTableMixin, ReadOnlyMixin


@admin.register(Grant)
class GrantAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = ["id", "account", "reason", "note", "remaining", "original", "created_at", "expires_at"]
    list_select_related = ["account"]
    exact_numbers = ("pk",)
    exact_texts = ("account__name",)


@admin.register(Hold)
class HoldAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = ["job_id", "account", "credits", "spent", "created_at", "resolved_at"]
    list_select_related = ["account"]
    exact_numbers = ("pk",)


@admin.register(Entry)
class EntryAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = ["id", "at", "account", "credits", "source", "target", "grant", "job_id", "reason"]
    list_select_related = ["account", "grant"]
    exact_numbers = ("job_id",)
    exact_texts = ("account__name",)
