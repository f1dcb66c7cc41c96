"""Admin pages for plans and the ledger. Accounts are in `clients/admin.py`, which writes the audit log."""

from django import forms
from django.contrib import admin

from billing.models import MAX_PARALLEL_SLOTS, Entry, Grant, Hold, Plan
from simservice.admin import LargeTableMixin, ReadOnlyMixin


class PlanForm(forms.ModelForm):
    """The form of a plan; `PlanAdmin` adds the other fields."""

    max_parallel_slots = forms.IntegerField(
        min_value=1,
        max_value=MAX_PARALLEL_SLOTS,
        initial=1,
        help_text="Simulation slots that a job with many profilesets can use at a time, up to "
        f"{MAX_PARALLEL_SLOTS}. A change affects new jobs only. With several simulation machines, a value above 1 "
        "requires shared artifact storage.",
    )

    class Meta:
        help_texts = {
            "retention_days": "Days for which files of new jobs are kept. Empty: the setting RETENTION_DAYS.",
            "max_stored_bytes": "Bytes of artifacts at which new jobs are refused. Empty: no limit.",
        }


@admin.register(Plan)
class PlanAdmin(admin.ModelAdmin):
    form = PlanForm
    list_display = [
        "name",
        "credits_per_second",
        "max_active_jobs",
        "max_credits_per_job",
        "max_parallel_slots",
        "monthly_credits",
    ]


@admin.register(Grant)
class GrantAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = ["id", "account", "reason", "note", "remaining", "original", "created_at", "expires_at"]
    list_filter = ["reason"]
    list_select_related = ["account"]
    exact_numbers = ("pk",)
    exact_texts = ("account__name",)


@admin.register(Hold)
class HoldAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = ["job_id", "account", "credits", "spent", "created_at", "resolved_at"]
    list_filter = [("resolved_at", admin.EmptyFieldListFilter)]
    list_select_related = ["account"]
    exact_numbers = ("pk",)
    exact_texts = ("account__name",)


@admin.register(Entry)
class EntryAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = ["id", "at", "account", "credits", "source", "target", "grant", "job_id", "reason"]
    list_filter = ["source", "target"]
    list_select_related = ["account", "grant"]
    exact_numbers = ("job_id",)
    exact_texts = ("account__name",)
