"""Jobs and builds as operators see them: facts to read, and the few things that can be done about them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from clients import audit
from clients.audit import Actor
from jobs import cancellation, operator_actions
from jobs.builds import registration, registry
from jobs.enums import MoveResult
from jobs.errors import JobAlreadyEnded
from jobs.models import Artifact, Build, Job, JobEvent, Run
from simservice.admin import ManyRows, ReadOnly
from simservice.ids import first_id_of

MOST_AT_ONCE = 200
ERROR_CODES = (
    "queue_timeout",
    "user_cancelled",
    "execution_timeout",
    "max_credits_reached",
    "insufficient_credits",
    "simulation_error",
    "execution_failed",
    "input_invalid",
    "build_unavailable",
    "execution_interrupted",
    "internal",
)


class RunInline(ReadOnly, admin.TabularInline):
    model = Run
    extra = 0
    fields = [
        "attempt",
        "stage",
        "shard",
        "build",
        "started_at",
        "ended_at",
        "wall_ms",
        "exit_code",
        "stopped_for",
        "sandbox_layers",
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        return super().get_queryset(request).select_related("build")


class JobEventInline(ReadOnly, admin.TabularInline):
    model = JobEvent
    extra = 0


class ArtifactInline(ReadOnly, admin.TabularInline):
    """Without the tokens: whoever has one can download the file."""

    model = Artifact
    extra = 0
    fields = ["kind", "attempt", "stage", "bytes", "sha256", "created_at"]


class ErrorCodeFilter(admin.SimpleListFilter):
    title = "error code"
    parameter_name = "error_code"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(code, code) for code in ERROR_CODES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        return queryset.filter(error_code=self.value()) if self.value() else queryset


class SubmittedFilter(admin.SimpleListFilter):
    """By the ids, which are ordered by time and have an index."""

    title = "submitted"
    parameter_name = "submitted"
    hours = {"1": "within an hour", "24": "within a day", "168": "within a week"}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(self.hours.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        if self.value() not in self.hours:
            return queryset
        since = timezone.now() - timedelta(hours=int(self.value() or 0))
        return queryset.filter(pk__gte=first_id_of(since))


@admin.register(Job)
class JobAdmin(ReadOnly, ManyRows, admin.ModelAdmin):
    list_display = [
        "id",
        "title",
        "account",
        "client",
        "status",
        "error_code",
        "priority",
        "attempt",
        "worker",
        "created_at",
        "completed_at",
    ]
    list_filter = ["status", SubmittedFilter, "priority", "channel", ErrorCodeFilter]
    list_select_related = ["account", "client__account"]
    exact_numbers = ("pk",)
    exact_texts = ("account__name",)
    exclude = ["summary", "share_token", "priority_fee_credits"]
    readonly_fields = ["fee_credits"]
    inlines = [RunInline, JobEventInline, ArtifactInline]
    actions = ["cancel", "requeue", "release"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        related = ("account", "client__account", "api_key", "build", "pinned_build")
        return super().get_queryset(request).defer("summary").select_related(*related)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        context["subtitle"] = kwargs["obj"].title
        return super().render_change_form(request, context, *args, **kwargs)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may do something about jobs, none of which can be edited."""
        return request.user.has_perm("jobs.change_job")

    @admin.action(description="Cancel: end waiting jobs, stop running ones", permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        def cancel(job: Job, *, by: Actor) -> MoveResult:
            try:
                cancellation.cancel(job, by=by)
            except JobAlreadyEnded:
                return MoveResult.TAKEN
            return MoveResult.DONE

        self.each(request, queryset, cancel, done="cancelled", refused="had ended")

    @admin.action(description="Requeue: take running jobs from their workers", permissions=["operate"])
    def requeue(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self.each(
            request, queryset, operator_actions.requeue, done="requeued", refused="were not in a worker's hands"
        )

    @admin.action(description="Release: end jobs as lost, give the credits back", permissions=["operate"])
    def release(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self.each(request, queryset, operator_actions.release, done="released", refused="had ended or moved")

    def each(
        self,
        request: HttpRequest,
        queryset: QuerySet[Job],
        door: Callable[..., MoveResult],
        *,
        done: str,
        refused: str,
    ) -> None:
        """Pass each chosen job to a door, record where it did something, and tell how it went."""
        chosen = list(queryset[: MOST_AT_ONCE + 1])
        if len(chosen) > MOST_AT_ONCE:
            self.message_user(request, f"Choose at most {MOST_AT_ONCE} jobs at a time.", messages.ERROR)
            return
        left, by = [], audit.operator(request)
        for job in chosen:
            if door(job, by=by):
                self.log_change(request, job, done.capitalize())
            else:
                left.append(str(job))
        self.message_user(request, f"{len(chosen) - len(left)} jobs {done}.")
        if left:
            self.message_user(request, f"Left alone, because they {refused}: {', '.join(left)}.", messages.WARNING)


class AvailabilityFilter(admin.SimpleListFilter):
    title = "availability"
    parameter_name = "availability"
    conditions = {
        "available": Q(withdrawn_at=None),
        "withdrawn": Q(withdrawn_at__isnull=False, broken_reason=""),
        "broken": registry.BROKEN,
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("available", "Available"), ("withdrawn", "Withdrawn"), ("broken", "Found broken by a worker")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Build]) -> QuerySet[Build]:
        return queryset.filter(self.conditions.get(self.value() or "", Q()))


@admin.register(Build)
class BuildAdmin(ReadOnly, admin.ModelAdmin):
    list_display = [
        "__str__",
        "broken_reason",
        "withdrawn_at",
        "simc_version",
        "wow_version",
        "created_at",
    ]
    ordering = ["-created_at"]
    list_filter = ["git_branch", AvailabilityFilter]
    search_fields = ["commit__startswith", "simc_version"]
    actions = ["withdraw", "restore"]

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may withdraw and restore builds, none of which can be edited."""
        return request.user.has_perm("jobs.change_build")

    @admin.action(description="Withdraw: no further job runs on it", permissions=["operate"])
    def withdraw(self, request: HttpRequest, queryset: QuerySet[Build]) -> None:
        self.each(request, queryset, registry.withdraw, done="withdrawn")

    @admin.action(
        description="Restore: jobs can run on it again; broken builds are probed first", permissions=["operate"]
    )
    def restore(self, request: HttpRequest, queryset: QuerySet[Build]) -> None:
        for build in queryset.filter(registry.BROKEN):
            try:
                registration.require_as_registered(build)
            except registration.UnusableBuild as error:
                self.message_user(request, f"{build} was not restored: {error}", messages.ERROR)
                queryset = queryset.exclude(pk=build.pk)
        self.each(request, queryset, registry.restore, done="restored")

    def each(
        self, request: HttpRequest, chosen: QuerySet[Build], door: Callable[[QuerySet[Build]], int], *, done: str
    ) -> None:
        """Pass each chosen build to a door, record where it did something, and tell how it went."""
        changed = [build for build in chosen if door(Build.objects.filter(pk=build.pk))]
        for build in changed:
            self.log_change(request, build, done.capitalize())
        self.message_user(request, f"{len(changed)} builds {done}.")
