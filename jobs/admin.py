"""Admin pages of jobs and builds: read-only facts, and actions that call domain functions."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.text import Truncator
from django.utils.timesince import timesince

from clients import audit
from clients.audit import Actor
from jobs import registry
from jobs.enums import ACTIVE, CLAIMED, WAITING, ErrorCode
from jobs.errors import JobAlreadyEnded
from jobs.execution import build_probe
from jobs.lifecycle import cancellation, job_moves
from jobs.live.progress import progress_of
from jobs.models import Artifact, Build, Closure, Job, JobProfile
from jobs.operations import job_output, operator_actions, timeline
from jobs.operations import plan_limits as plan_limits
from jobs.queue import announcements
from jobs.results import queries
from simservice.admin.actions import Columns, Effect, counted, preview
from simservice.admin.base import LargeTableMixin, ReadOnlyMixin, admin_url, may_view
from simservice.ids import first_id_of

STATE_FIELDS = (
    ("account", "client", "api_key"),
    ("status", "error_code", "build"),
    "status_reason",
    ("attempt", "worker", "lease_expires_at"),
    ("created_at", "queue_deadline_at", "updated_at"),
)
REQUEST_FIELDS = (
    "priority",
    "channel",
    "git_branch",
    "pinned_build",
    "multi_stage",
    "html",
    "csv",
    "has_credentials",
    "wants_webhook",
    "json_version",
    "metadata",
    "character",
    "other_characters",
    "given_title",
    "trace_parent",
)
LIMIT_FIELDS = (
    "max_credits",
    "ceiling_credits",
    "ceiling_runtime_seconds",
    "ceiling_queue_seconds",
    "credits_per_second",
    "vcpus",
    "parallel_slots",
    "retention_days",
)
OUTCOME_FIELDS = (
    "credits_consumed",
    "fee_credits",
    "sim_duration_ms",
    "slots_used",
    "percent",
    "simulator_exit_code",
    "warnings",
    "missing_artifacts",
    "started_at",
    "completed_at",
    "cancel_requested_at",
    "pause_requested_at",
    "paused_at",
    "cleared_at",
)


# Jobs that the search of the list finds by title
MAX_TITLED = 1_000
OTHER_FILTERS = {"status__exact", "priority__exact", "channel__exact", "error_code"}


class ErrorCodeFilter(admin.SimpleListFilter):
    title = "error code"
    parameter_name = "error_code"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(code.value, code.value) for code in ErrorCode]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        return queryset.filter(error_code=self.value()) if self.value() else queryset


class AttentionFilter(admin.SimpleListFilter):
    """Filters for the jobs that the live overview counts, by the same indexes."""

    title = "problem"
    parameter_name = "attention"
    conditions = {
        "error": queries.RECENT_ERROR,
        "stalled": job_moves.STALLED,
        "unannounced": announcements.UNANNOUNCED,
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [
            ("error", "Ended with an error in the past hour"),
            ("stalled", "Worker no longer responds"),
            ("unannounced", "Not announced to the workers"),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        return queryset.filter(self.conditions.get(self.value() or "", Q()))


class SubmittedFilter(admin.SimpleListFilter):
    """Filters by id: ids are ordered by time and indexed.

    Other filters select the past seven days, because rare values would otherwise be searched in all jobs.
    Unfinished jobs and those of an account have indexes of their own.
    """

    title = "submitted"
    parameter_name = "submitted"
    hours = {"1": "Past hour", "24": "Past day", "168": "Past 7 days"}

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        super().__init__(request, *args)
        is_indexed = request.GET.get("q") or request.GET.get("status__exact") in ACTIVE
        self.default = "168" if request.GET.keys() & OTHER_FILTERS and not is_indexed else None

    def value(self) -> str | None:
        return super().value() or self.default

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(self.hours.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        if self.value() not in self.hours:
            return queryset
        since = timezone.now() - timedelta(hours=int(self.value() or 0))
        return queryset.filter(pk__gte=first_id_of(since))


@admin.register(Job)
class JobAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    """Jobs, as pages of the operators' console."""

    change_list_template = "console/jobs.html"
    change_form_template = "console/job.html"
    list_display = ["title"]
    list_filter = ["status", AttentionFilter, SubmittedFilter, "priority", "channel", ErrorCodeFilter]
    list_select_related = ["account", "client__account"]
    exact_numbers = ("pk",)
    exact_texts = ("account__name",)
    # Without the tokens of links, which would allow reading without a login
    fieldsets = [
        ("State", {"fields": STATE_FIELDS}),
        ("Request", {"fields": REQUEST_FIELDS, "classes": ["collapse"]}),
        ("Limits", {"fields": LIMIT_FIELDS, "classes": ["collapse"]}),
        ("Outcome", {"fields": OUTCOME_FIELDS, "classes": ["collapse"]}),
    ]
    readonly_fields = ["fee_credits"]
    actions = ["cancel", "requeue", "release"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        related = ("account", "client__account", "api_key", "build", "pinned_build")
        return super().get_queryset(request).defer("summary").select_related(*related)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Job], search_term: str
    ) -> tuple[QuerySet[Job], bool]:
        """Return the jobs with an id, of an account, or with a title or character that starts with the term."""
        found, _ = super().get_search_results(request, queryset, search_term)
        if term := search_term.strip().replace("\0", ""):
            titled = queries.find_by_title(term, limit=MAX_TITLED)
            found = found | queryset.filter(pk__in=titled) if titled else found
        return found, False

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        job = kwargs["obj"]
        found = timeline.timeline_of(job, may_view=partial(may_view, self.admin_site, request))
        entries = [(each, admin_url(self.admin_site, request, each.entry.subject)) for each in found.entries]
        context |= {
            "job": job,
            "subtitle": job.title,
            "progress": progress_of(job) if job.status in CLAIMED else None,
            "effects": self._effects(request, job),
            "log": job_output.last_lines(job) if may_view(self.admin_site, request, Artifact) else None,
            "may_view_profile": may_view(self.admin_site, request, JobProfile),
            "entries": entries,
            "limit": found.is_shortened and timeline.MAX_OF_A_KIND,
        }
        return super().render_change_form(request, context, *args, **kwargs)

    def _effects(self, request: HttpRequest, job: Job) -> list[tuple[str, str, Effect]]:
        """Return the actions that the user can run on a job: their names, buttons and effects."""
        if not self.has_operate_permission(request):
            return []
        found = [(name, name.capitalize(), effect_of(job)) for name, effect_of in EFFECTS.items()]
        return [each for each in found if each[2].happens]

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may run actions on jobs."""
        return request.user.has_perm("jobs.change_job")

    @admin.action(description="Cancel selected jobs", permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        def cancel(job: Job, *, by: Actor) -> bool:
            try:
                cancellation.cancel(job, by=by)
            except JobAlreadyEnded:
                return False
            return True

        run = partial(self.each, request, cancel, done="cancelled", skipped="they had already ended")
        return self._preview(request, queryset, action="cancel", run=run)

    @admin.action(
        description="Requeue selected jobs (take running jobs from their workers)", permissions=["operate"]
    )
    def requeue(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        skipped = "they had ended or changed"
        run = partial(self.each, request, operator_actions.requeue, done="requeued", skipped=skipped)
        return self._preview(request, queryset, action="requeue", run=run)

    @admin.action(
        description="Release selected jobs (end them as interrupted, without billing)", permissions=["operate"]
    )
    def release(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        skipped = "they had ended or changed"
        run = partial(self.each, request, operator_actions.release, done="released", skipped=skipped)
        return self._preview(request, queryset, action="release", run=run)

    def _preview(
        self, request: HttpRequest, queryset: QuerySet[Job], *, action: str, run: Callable[[list[Job]], None]
    ) -> HttpResponse | None:
        """Show what an action does to each job; run it once the user confirms that."""
        columns = Columns(("Title", "Account", "Age", "Credits at stake"), _cells_of)
        return preview(self, request, queryset, action=action, effect_of=EFFECTS[action], run=run, columns=columns)

    def each(
        self, request: HttpRequest, action: Callable[..., object], jobs: list[Job], *, done: str, skipped: str
    ) -> None:
        """Run an action on each job, log the jobs it changed and show a message."""
        unchanged, by = [], audit.operator(request)
        for job in jobs:
            if action(job, by=by):
                self.log_change(request, job, done.capitalize())
            else:
                unchanged.append(str(job))
        self.message_user(request, f"{counted(len(jobs) - len(unchanged), self)} {done}.")
        if unchanged:
            self.message_user(request, f"Skipped because {skipped}: {', '.join(unchanged)}.", messages.WARNING)


def effect_of_cancelling(job: Job) -> Effect:
    """Return what cancelling does to a job."""
    if job.is_terminal:
        return Effect("it has ended.", happens=False)
    if job.cancel_requested_at is not None:
        return Effect("its cancellation was already requested.", happens=False)
    if job.status in WAITING:
        return Effect("It is waiting: it ends at once, and only its finished shards, if any, are billed.")
    return Effect("It is running: the simulation stops, and the time used is billed.")


def effect_of_requeueing(job: Job) -> Effect:
    """Return what requeueing does to a job."""
    if not operator_actions.may_requeue(job):
        return Effect("it is waiting." if job.is_waiting else "it has ended.", happens=False)
    if job.cancel_requested_at is not None:
        return Effect("Its cancellation was requested: it is cancelled and not billed.")
    return Effect(f"Attempt {job.attempt} stops, and the job returns to its place in the queue.")


def effect_of_releasing(job: Job) -> Effect:
    """Return what releasing does to a job."""
    if not operator_actions.may_release(job):
        return Effect("it has ended.", happens=False)
    stopped = f"Attempt {job.attempt} stops. " if operator_actions.may_requeue(job) else ""
    return Effect(f"{stopped}It fails with the code execution_interrupted and is not billed.")


EFFECTS = {"cancel": effect_of_cancelling, "requeue": effect_of_requeueing, "release": effect_of_releasing}


def _cells_of(job: Job) -> tuple[str, ...]:
    """Return what a preview shows of a job. An unfinished job can still cost its limit."""
    at_stake = job.ceiling_credits + job.priority_fee_credits if job.credits_consumed is None else 0
    return (Truncator(job.title).chars(60), str(job.account), timesince(job.created_at, depth=1), f"{at_stake:,}")


class AvailabilityFilter(admin.SimpleListFilter):
    title = "availability"
    parameter_name = "availability"
    conditions = {
        "available": Q(withdrawn_at=None),
        "withdrawn": Q(withdrawn_at__isnull=False, broken_reason=""),
        "broken": registry.BROKEN,
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("available", "Available"), ("withdrawn", "Withdrawn"), ("broken", "Broken")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Build]) -> QuerySet[Build]:
        return queryset.filter(self.conditions.get(self.value() or "", Q()))


@admin.register(Build)
class BuildAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = [
        "__str__",
        "broken_reason",
        "html_failure",
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
        """Return whether the user may withdraw and restore builds."""
        return request.user.has_perm("jobs.change_build")

    @admin.action(description="Withdraw selected builds (no further jobs run on them)", permissions=["operate"])
    def withdraw(self, request: HttpRequest, queryset: QuerySet[Build]) -> HttpResponse | None:
        run = partial(self.each, request, registry.withdraw, done="withdrawn")
        effect_of = partial(effect_of_withdrawing, emptied=registry.emptied_branches(queryset))
        return preview(self, request, queryset, action="withdraw", effect_of=effect_of, run=run)

    @admin.action(description="Restore selected builds (each is tested first)", permissions=["operate"])
    def restore(self, request: HttpRequest, queryset: QuerySet[Build]) -> HttpResponse | None:
        run = partial(self.restore_working, request)
        return preview(self, request, queryset, action="restore", effect_of=effect_of_restoring, run=run)

    def restore_working(self, request: HttpRequest, builds: list[Build]) -> None:
        """Restore builds, except those that do not work on this machine."""
        # It starts simulators, and no other request needs the code for that.
        from jobs.operations import build_registration

        working = []
        for build in builds:
            try:
                build_registration.require_as_registered(build)
            except (build_probe.UnusableBuild, build_probe.NotChecked) as error:
                self.message_user(request, f"{build} was not restored: {error}", messages.ERROR)
            else:
                working.append(build)
        self.each(request, registry.restore, working, done="restored")

    def each(
        self,
        request: HttpRequest,
        action: Callable[[QuerySet[Build]], int],
        builds: list[Build],
        *,
        done: str,
    ) -> None:
        """Run an action on each build, log the builds it changed and show a message."""
        changed = [build for build in builds if action(Build.objects.filter(pk=build.pk))]
        for build in changed:
            self.log_change(request, build, done.capitalize())
        self.message_user(request, f"{counted(len(changed), self)} {done}.")


def effect_of_withdrawing(build: Build, *, emptied: set[str]) -> Effect:
    """Return what withdrawing does to a build. The branches `emptied` then have no available build."""
    if build.broken_reason:
        return Effect("It stays withdrawn, but is no longer reported as broken.")
    if build.withdrawn_at is not None:
        return Effect("it was already withdrawn.", happens=False)
    text = "No further jobs run on it. Running ones continue."
    if build.git_branch in emptied:
        text += f" Branch {build.git_branch} then has no build: new jobs are refused, and waiting ones fail."
    return Effect(text)


def effect_of_restoring(build: Build) -> Effect:
    """Return what restoring does to a build."""
    if build.withdrawn_at is None:
        return Effect("it is available.", happens=False)
    return Effect("It is tested, and becomes available again if it works.")


@admin.register(Closure)
class ClosureAdmin(ReadOnlyMixin, admin.ModelAdmin):
    """The history of paused lanes and drained machines. Operators change them on the console's page *Capacity*."""

    list_display = ["__str__", "began_at", "began_by", "ended_at", "ended_by", "reason"]
    list_filter = ["lane", ("ended_at", admin.EmptyFieldListFilter)]
    search_fields = ["host"]
    ordering = ["-pk"]
