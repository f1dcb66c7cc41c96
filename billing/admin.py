"""Admin pages for plans and the ledger. Accounts are in `clients/admin.py`, which writes the audit log."""

from collections.abc import Callable
from typing import Any, NamedTuple

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from billing.models import MAX_PARALLEL_SLOTS, Account, Entry, Grant, Hold, Plan
from simservice.admin.actions import CONFIRMED, digest_of
from simservice.admin.base import LargeTableMixin, ReadOnlyMixin, number
from simservice.admin.forms import OPENED, OpenedForm

OVERTAKEN = "The plan has changed since you opened the form. Check every change."
CHANGED = "The plan has changed since this page was shown. Nothing was saved. Check the changes again."
NEEDED = "New accounts get this plan. Change the setting SIGNUP_PLAN before you rename or delete it."
HELP_TEXTS = {
    "credits_per_second": "Credits per second of simulator time.",
    "high_priority_fee_credits": "Credits for a job in the high lane, in addition to its time.",
    "monthly_credits": "Credits granted at the start of each month. They expire at its end.",
    "max_credits_per_job": "Maximum credits that a job can cost, not including the fee.",
    "vcpu_per_job": "Virtual CPUs for a job's simulator.",
    "max_variants": "Maximum number of profilesets and copies in a profile.",
    "max_parallel_slots": "Maximum simulation slots that a job with many profilesets can use at a time, up to "
    f"{MAX_PARALLEL_SLOTS}. With several simulation machines, more than 1 requires shared artifact storage.",
    "allows_build_pin": "Whether a job can choose the build on which it runs.",
    "pool": "The pool of workers that the API shows. It does not change where jobs run.",
    "max_active_jobs": "Maximum number of waiting and running jobs. Further submissions are refused.",
    "max_queue_seconds": "Seconds. The longest queue timeout that a job can request.",
    "default_queue_seconds": "Seconds. The queue timeout of a job that does not request one.",
    "submissions_per_minute": "Maximum submissions of an account per minute.",
    "submission_bytes_per_minute": "Maximum bytes of an account's submissions per minute, including refused ones.",
    "reads_per_minute": "Maximum other requests with an API key per minute.",
    "retention_days": "Days for which files of new jobs are kept. If empty, the setting RETENTION_DAYS applies.",
    "max_stored_bytes": "Bytes of artifacts at which new jobs are refused. If empty, there is no limit.",
}

# Credits that pay for simulator time
TIMED_CREDITS = ("monthly_credits", "max_credits_per_job")

# Functions that count a plan's accounts that have reached a limit now, by the limit's field. The apps that enforce
# limits add theirs.
accounts_at_limit: dict[str, Callable[[Plan], int]] = {}


class Change(NamedTuple):
    """A changed field of a plan: its label, and its old and new value."""

    label: str
    old: object
    new: object


def described(name: str, value: object, *, credits_per_second: int) -> str:
    """Return the value of a plan's field with separators, and large amounts also in a larger unit."""
    if isinstance(value, bool) or not isinstance(value, int):
        return "none" if value is None else str(value)
    text = f"{value:,}"
    if "bytes" in name:
        return f"{text} bytes (≈ {value / 2**20:,.1f} MiB)"
    if name.endswith("queue_seconds"):
        return f"{text} s ({_duration(value)})"
    if name in TIMED_CREDITS and value:
        return f"{text} credits (≈ {_duration(value // credits_per_second)} of simulation)"
    return text


def _duration(seconds: int) -> str:
    """Return a duration in its largest unit, for example "30 min"."""
    size, unit = next(
        (each for each in ((86_400, "days"), (3_600, "h"), (60, "min")) if seconds >= 2 * each[0]), (1, "s")
    )
    return f"{seconds / size:,.1f}".removesuffix(".0") + f" {unit}"


class PlanForm(OpenedForm):
    """The form of a plan; `PlanAdmin` adds the fields of the model."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Add to the help of each large number what its value means."""
        super().__init__(*args, **kwargs)
        rate = self.initial.get("credits_per_second") or 1
        for name, field in self.fields.items():
            value = self.initial.get(name)
            if isinstance(value, int) and (text := described(name, value, credits_per_second=rate)) != str(value):
                field.help_text = f"{field.help_text} Now: {text}."

    class Meta:
        help_texts = HELP_TEXTS

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if self.initial.get("name") == settings.SIGNUP_PLAN != name:
            raise forms.ValidationError(NEEDED)
        return name

    def shown_changes(self) -> list[Change]:
        """Return the changes with units. The old values are shown at the old price."""
        rates = [values.get("credits_per_second") or 1 for values in (self.initial, self.cleaned_data)]
        return [
            Change(
                str(self.fields[name].label),
                described(name, self.initial[name], credits_per_second=rates[0]),
                described(name, self.cleaned_data[name], credits_per_second=rates[1]),
            )
            for name in self.changed_data
            if name != OPENED
        ]

    def changes(self) -> list[Change]:
        """Return the changes that a valid form makes to the stored plan, in the order of its fields."""
        names = [name for name in self.changed_data if name != OPENED]
        return [Change(str(self.fields[name].label), self.initial[name], self.cleaned_data[name]) for name in names]


@admin.register(Plan)
class PlanAdmin(admin.ModelAdmin):
    form = PlanForm
    # Plans are deleted one by one.
    actions = None
    list_display = [
        "name",
        number("credits_per_second"),
        number("max_active_jobs"),
        number("max_credits_per_job"),
        number("max_parallel_slots"),
        number("monthly_credits"),
    ]
    fieldsets = [
        (None, {"fields": ["name", OPENED]}),
        ("Prices", {"fields": ["credits_per_second", "high_priority_fee_credits", "monthly_credits"]}),
        (
            "A job",
            {
                "fields": [
                    "max_credits_per_job",
                    "vcpu_per_job",
                    "max_variants",
                    "max_parallel_slots",
                    "allows_build_pin",
                    "pool",
                ]
            },
        ),
        ("Queue", {"fields": ["max_active_jobs", "max_queue_seconds", "default_queue_seconds"]}),
        (
            "Rate limits",
            {"fields": ["submissions_per_minute", "submission_bytes_per_minute", "reads_per_minute"]},
        ),
        ("Storage", {"fields": ["retention_days", "max_stored_bytes"]}),
    ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the form or, once it is valid, its changes; save them when the user confirms exactly those."""
        with transaction.atomic():
            plan = self.get_object(request, object_id)
            if request.method == "POST" and plan is not None and self.has_change_permission(request, plan):
                # Locked, so that no other form is saved between the comparison and the change
                locked = Plan.objects.select_for_update().get(pk=plan.pk)
                if page := self.preview(request, locked):
                    return page
            return super().change_view(request, object_id, form_url, extra_context)

    def preview(self, request: HttpRequest, plan: Plan) -> HttpResponse | None:
        """Return the preview of a valid form, or None if the form is invalid, unchanged or confirmed.

        Validation writes the form's values into `plan`.
        """
        form: Any = self.get_form(request, plan)(request.POST, instance=plan)
        if not form.is_valid() or not (changes := form.changes()):
            return None
        digest = digest_of([form.initial, changes])
        confirmed = request.POST.get(CONFIRMED)
        if confirmed == digest:
            return None
        if confirmed is not None:
            self.message_user(request, CHANGED, messages.WARNING)
        elif form.is_stale():
            self.message_user(request, OVERTAKEN, messages.WARNING)
        return self._page(request, form, digest=digest)

    def _page(self, request: HttpRequest, form: PlanForm, *, digest: str) -> TemplateResponse:
        """Return the preview of a form's changes. One query, and one for each changed limit."""
        counted = {
            name: count(form.instance) for name, count in accounts_at_limit.items() if name in form.changed_data
        }
        context = {
            **self.admin_site.each_context(request),
            "title": "Check the changes",
            "button": "Save changes",
            "subtitle": str(form.instance),
            "opts": self.opts,
            "changes": form.shown_changes(),
            "accounts": Account.objects.filter(plan=form.instance).count(),
            "reached": [(form.fields[name].label, count) for name, count in counted.items() if count],
            "hidden": [*_sent(request.POST), (CONFIRMED, digest)],
        }
        return TemplateResponse(request, "admin/plan_preview.html", context)

    def construct_change_message(
        self,
        request: HttpRequest,
        form: Any,
        formsets: Any,
        add: bool = False,  # noqa: FBT001, FBT002 - the framework's own signature
    ) -> Any:
        """Log the old and new values of a changed plan."""
        if add:
            return super().construct_change_message(request, form, formsets, add)
        changes = form.changes()
        return "; ".join(f"{change.label}: {change.old} → {change.new}" for change in changes) or "No changes."

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Delete the plan, unless new accounts get it."""
        plan = self.get_object(request, object_id)
        if plan is None or plan.name != settings.SIGNUP_PLAN or not self.has_delete_permission(request, plan):
            return super().delete_view(request, object_id, extra_context)
        self.message_user(request, NEEDED, messages.ERROR)
        return redirect("admin:billing_plan_change", plan.pk)

    def has_delete_permission(self, request: HttpRequest, obj: Plan | None = None) -> bool:
        """Return whether the user can delete a plan: one without accounts."""
        is_used = obj is not None and obj.accounts.exists()
        return super().has_delete_permission(request, obj) and not is_used


def _sent(sent: QueryDict) -> list[tuple[str, str]]:
    """Return the fields of a form that the preview sends again."""
    own = ("csrfmiddlewaretoken", CONFIRMED)
    return [(name, value) for name, values in sent.lists() if name not in own for value in values]


@admin.register(Grant)
class GrantAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = [
        "id",
        "account",
        "reason",
        "note",
        number("remaining"),
        number("original"),
        "created_at",
        "expires_at",
    ]
    list_select_related = ["account"]
    exact_numbers = ("pk",)
    exact_texts = ("account__name",)


@admin.register(Hold)
class HoldAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = ["job_id", "account", number("credits"), number("spent"), "created_at", "resolved_at"]
    list_select_related = ["account"]
    exact_numbers = ("pk",)


@admin.register(Entry)
class EntryAdmin(ReadOnlyMixin, LargeTableMixin, admin.ModelAdmin):
    list_display = ["id", "at", "account", number("credits"), "source", "target", "grant", "job_id", "reason"]
    list_select_related = ["account", "grant"]
    exact_numbers = ("job_id",)
    exact_texts = ("account__name",)
