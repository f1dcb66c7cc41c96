"""Jobs and builds as operators see them: facts to read, never to edit."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from jobs import builds
from jobs.models import Build, Job, JobEvent, Run
from simservice.facts import ReadOnly


class RunInline(ReadOnly, admin.TabularInline):
    model = Run
    extra = 0


class JobEventInline(ReadOnly, admin.TabularInline):
    model = JobEvent
    extra = 0


@admin.register(Job)
class JobAdmin(ReadOnly, admin.ModelAdmin):
    list_display = [
        "id",
        "account",
        "status",
        "error_code",
        "priority",
        "attempt",
        "created_at",
        "completed_at",
    ]
    list_filter = ["status", "priority", "error_code"]
    list_select_related = ["account"]
    search_fields = ["=id", "=account__name"]
    exclude = ["summary", "share_token"]
    inlines = [RunInline, JobEventInline]
    show_full_result_count = False


@admin.register(Build)
class BuildAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["git_branch", "commit", "simc_version", "wow_version", "created_at", "withdrawn_at"]
    list_filter = ["git_branch"]
    actions = ["withdraw", "restore"]

    @admin.action(description="Withdraw: no further job runs on it")
    def withdraw(self, request: HttpRequest, queryset: QuerySet[Build]) -> None:
        self.message_user(request, f"{builds.withdraw(queryset)} builds withdrawn.")

    @admin.action(description="Restore: jobs may run on it again")
    def restore(self, request: HttpRequest, queryset: QuerySet[Build]) -> None:
        self.message_user(request, f"{builds.restore(queryset)} builds restored.")
