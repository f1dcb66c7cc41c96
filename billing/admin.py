"""Plans and accounts in the admin."""

from django.contrib import admin

from billing.models import Account, Plan


@admin.register(Plan)
class PlanAdmin(admin.ModelAdmin):
    list_display = ["name", "credits_per_second", "max_active_jobs", "max_credits_per_job"]


@admin.register(Account)
class AccountAdmin(admin.ModelAdmin):
    list_display = ["name", "plan", "created_at"]
    list_select_related = ["plan"]
    search_fields = ["name"]
    readonly_fields = ["created_at"]
