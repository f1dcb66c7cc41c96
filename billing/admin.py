"""Plans in the admin. Accounts are in `clients.admin`, because opening one makes its first client."""

from django.contrib import admin

from billing.models import Plan


@admin.register(Plan)
class PlanAdmin(admin.ModelAdmin):
    list_display = ["name", "credits_per_second", "max_active_jobs", "max_credits_per_job"]
