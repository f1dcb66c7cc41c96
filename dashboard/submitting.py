"""Submitting a job from a page: a form that becomes the API's own request, and is judged as that is.

Nothing is checked here that the API checks: its errors are shown beside the fields that they are about.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import NON_FIELD_ERRORS
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from clients import once, rate_limits
from clients.members import Role
from clients.models import Client
from dashboard.access import Place, account_page
from dashboard.forms import sent
from dashboard.job_list import clients_of
from jobs import queries, variants
from jobs.api.submission_request import PRIORITIES, from_json
from jobs.enums import Channel, Priority
from jobs.errors import JobsError, NotFound, ProfileRejected
from jobs.models import Build, Job
from jobs.profiles.policy import Refusal
from jobs.submission import accept, validation
from jobs.submission.accept import Accepted
from jobs.submission.validation import Sender
from simservice.api.errors import (
    ApiError,
    BuildPinNotAllowed,
    BuildPinUnavailable,
    InsufficientCredits,
    ProfileRefused,
    ProfileTooLarge,
    TooManyVariants,
    ValidationFailed,
    WebhookNotConfigured,
)
from simservice.api.exception_handler import as_api_error

PURPOSE = "job"
OLD_FORM = "This form is more than a day old, so nothing was submitted. Please send it again as it is."
NO_WEBHOOK = "This client has no webhook that is enabled. Enable it on the client's page, or choose another client."
# Where the API's request has what a field holds.
PLACES = {
    "channel": "build.channel",
    "branch": "build.gitBranch",
    "build": "build.id",
    "profile": "profile.text",
    "stages": "runtime.multiStage",
    "queue_seconds": "runtime.maxQueueSeconds",
    "priority": "priority",
    "metadata": "metadata",
    "game_id": "credentials.bnetClientId",
    "game_secret": "credentials.bnetClientSecret",
    "webhook": "webhook.events",
    "html": "artifacts.html",
    "csv": "artifacts.csv",
    "json_version": "artifacts.json.version",
}
# Which field an error without a place is about.
FIELDS: dict[type[ApiError], str] = {
    ProfileRefused: "profile",
    ProfileTooLarge: "profile",
    TooManyVariants: "profile",
    BuildPinNotAllowed: "build",
    BuildPinUnavailable: "build",
    WebhookNotConfigured: "webhook",
}
CAP_LABELS = {"maxCredits": "Most credits it may cost", "maxRuntimeSeconds": "Most seconds it may run"}
# Lines shown before and after one that is refused, and the most that are shown in all.
AROUND = 2
SHOWN_CHARACTERS = 200
SHOWN_WARNINGS = 5


class JobForm(forms.Form):
    """What a job needs, and what it may be told beside that."""

    form = forms.CharField(widget=forms.HiddenInput, required=False)
    client = forms.ChoiceField(help_text="Whose job it is: its webhook is told of the end, its use is counted.")
    profile = forms.CharField(
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "autocapitalize": "off"}),
        help_text="As the simulator's addon or a file has it, up to 2 MB.",
    )
    channel = forms.ChoiceField(label="Build channel", choices=Channel.choices, initial=Channel.LATEST)
    branch = forms.ChoiceField(label="Branch", choices=[(name, name) for name in settings.GIT_BRANCHES])
    build = forms.ChoiceField(label="Pinned build", required=False, help_text="Instead of the channel's.")
    stages = forms.BooleanField(
        label="Run profilesets in stages",
        required=False,
        help_text="What is clearly beaten is left out early, which saves credits.",
    )
    priority = forms.ChoiceField(choices=[(name, name.capitalize()) for name in PRIORITIES], initial="standard")
    cap = forms.IntegerField(required=False)
    queue_seconds = forms.IntegerField(label="Most seconds it may wait", required=False)
    html = forms.BooleanField(label="HTML report", required=False)
    csv = forms.BooleanField(label="CSV table", required=False)
    json_version = forms.TypedChoiceField(
        label="JSON report", choices=[(2, "Version 2"), (3, "Version 3 (experimental)")], coerce=int, initial=2
    )
    webhook = forms.BooleanField(label="Tell the client's webhook when the job ends", required=False)
    metadata = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="One entry a line, as in “raid: Liberation”. The job carries them unchanged.",
    )
    game_id = forms.CharField(label="Game API client id", required=False)
    game_secret = forms.CharField(
        label="Game API client secret",
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="For this job only: kept encrypted until it ends, and shown to nobody. Both or neither.",
    )

    def __init__(self, place: Place, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plan = place.account.plan
        self.fields["client"].choices = list(clients_of(place.account))  # type: ignore[attr-defined]
        pins = list(pins_for(settings.GIT_BRANCHES)) if plan.allows_build_pin else []
        self.fields["build"].choices = [("", "None"), *pins]  # type: ignore[attr-defined]
        for name, unused in (("build", not pins), ("branch", len(settings.GIT_BRANCHES) == 1)):
            if unused:
                del self.fields[name]
        self.places = PLACES | {"cap": f"runtime.{variants.current().cap_field}"}
        self.fields["cap"].label = CAP_LABELS[variants.current().cap_field]
        self.fields[
            "cap"
        ].help_text = f"{plan.max_credits_per_job:,} credits at most, {plan.credits_per_second} a second."
        self.fields[
            "queue_seconds"
        ].help_text = f"{plan.max_queue_seconds:,} at most; it ends if it has not started."
        self.fields["game_id"].widget.attrs["autocomplete"] = "off"

    def body(self) -> dict[str, Any]:
        """Return the JSON that a program would send. What was left open is left out."""
        body: dict[str, Any] = {}
        given = self.cleaned_data | {"profile": self.cleaned_data["profile"].replace("\r\n", "\n")}
        given["metadata"] = dict(entries(given["metadata"]))
        given["webhook"] = given["webhook"] and ["job.terminal"]
        for name, place in self.places.items():
            value = given.get(name)
            # Zero is something that was given, and refused as a program's would be.
            if value or (value == 0 and value is not False):
                put(body, place, value)
        return body

    def say(self, error: ApiError) -> None:
        """Show an error of the API beside the field that it is about."""
        if isinstance(error, ValidationFailed):
            for issue in error.issues:
                self.add_error(self.field_at(issue["path"]), issue["message"])
        else:
            field = FIELDS.get(type(error), NON_FIELD_ERRORS)
            self.add_error(field if field in self.fields else NON_FIELD_ERRORS, told(error))

    def field_at(self, path: str) -> str:
        """Return the field that holds what the API has at a path."""
        held = (
            name for name, place in self.places.items() if path.startswith(place) or place.startswith(f"{path}.")
        )
        return next((name for name in held if name in self.fields), NON_FIELD_ERRORS)


def put(body: dict[str, Any], place: str, value: Any) -> None:
    """Set the value at a dotted place of nested objects."""
    *parents, last = place.split(".")
    for parent in parents:
        body = body.setdefault(parent, {})
    body[last] = value


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of metadata, one a line; a line without a colon is an entry without a value."""
    for line in text.splitlines():
        if line.strip():
            name, _, value = line.partition(":")
            yield name.strip(), value.strip()


def pins_for(branches: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the builds that a job can be pinned to, as choices. One query."""
    found = Build.objects.filter(git_branch__in=branches, withdrawn_at=None).order_by("-created_at")
    return ((str(build.pk), f"{build}, {build.created_at:%Y-%m-%d}") for build in found[:100])


def told(error: ApiError) -> str:
    """Return an error as a person should read it."""
    meta = error.meta or {}
    if isinstance(error, WebhookNotConfigured):
        return NO_WEBHOOK
    if isinstance(error, InsufficientCredits):
        needed, affordable = meta["requiredCredits"], meta["maxAffordableCredits"]
        return f"{error.message} It needs {needed:,} now; the account can afford a limit of {affordable:,}."
    return str(meta.get("message", error.message))


@dataclass(frozen=True, kw_only=True)
class OneForm:
    """A form that creates one job, however often it is sent (`accept.Deduplication`)."""

    form: str
    user_id: int

    def find_replay(self) -> None:
        """Raise once.SentBefore if the form has created its job, or once.TooOld."""
        once.require_unused(self.form, self.user_id, PURPOSE)

    def record(self, accepted: Accepted) -> None:  # noqa: ARG002
        """Use the form's token."""
        once.use(self.form, self.user_id, PURPOSE)


@account_page(post=Role.MEMBER)
def submit_job(request: HttpRequest, place: Place) -> HttpResponse:
    """Show the form for a job, perhaps filled in as an earlier one was; submit a job."""
    form = JobForm(place, sent(request), initial=initial_from(request, place))
    refused: list[dict[str, Any]] = []
    if request.method == "POST" and form.is_valid():
        try:
            return submit(request, place, form)
        except once.SentBefore:
            messages.info(request, "This form was sent before, and its job is in the list.")
            return redirect("jobs", place.account.name)
        except once.TooOld:
            form.add_error(NON_FIELD_ERRORS, OLD_FORM)
        except (ApiError, JobsError) as error:
            refused = refused_lines(form) if isinstance(error, ProfileRejected) else []
            form.say(as_api_error(error))
    context = {
        "section": "jobs",
        "form": form,
        "refused": refused,
        "token": once.new_form(place.user.pk, PURPOSE),
    }
    return render(request, "dashboard/submit_job.html", context)


def submit(request: HttpRequest, place: Place, form: JobForm) -> HttpResponse:
    """Submit the job that a form describes. Raises an ApiError, a JobsError, once.SentBefore, or once.TooOld."""
    rate_limits.spend(request, rate_limits.submission_limit(place.account))
    rate_limits.spend_bytes(place.account, rate_limits.length_of(request))
    asked = from_json(form.body())
    one_form = OneForm(form=form.cleaned_data["form"], user_id=place.user.pk)
    # A repeated form raises an error instead of a replay.
    accepted = cast(Accepted, accept.submit(asked, sender=Sender(client_of(place, form)), deduplication=one_form))
    messages.success(request, "The job is accepted.")
    for warning in accepted.warnings[:SHOWN_WARNINGS]:
        messages.warning(request, f"Line {warning['line']}: {warning['message']}")
    return redirect("job", place.account.name, accepted.job.pk)


def client_of(place: Place, form: JobForm) -> Client:
    """Return the client that the form names, with the account and the plan. One query."""
    client = Client.objects.get(pk=form.cleaned_data["client"], account=place.account)
    client.account = place.account
    return client


def refused_lines(form: JobForm) -> list[dict[str, Any]]:
    """Return the refused lines of a profile with some around each, and the reasons."""
    asked = from_json(form.body())
    reasons: dict[int, Refusal] = {}
    for refusal in validation.analysis_of(asked).refusals:
        reasons.setdefault(refusal.line, refusal)
    lines = asked.profile_text.split("\n")
    near = {at for line in reasons for at in range(line - AROUND, line + AROUND + 1) if 0 < at <= len(lines)}
    return [
        {
            "number": number,
            "text": lines[number - 1][:SHOWN_CHARACTERS],
            "reason": reasons[number].reason if number in reasons else "",
            "gap": number - 1 not in near and number > 1,
        }
        for number in sorted(near)
    ]


def initial_from(request: HttpRequest, place: Place) -> dict[str, Any]:
    """Return what the form begins with: as the job that `again` names was submitted. Raises Http404."""
    again = request.GET.get("again", "")
    if not again:
        return {}
    try:
        return as_submitted(queries.find_job(place.account, again), queries.profile_of(place.account, again))
    except NotFound:
        raise Http404 from None


def as_submitted(job: Job, profile: str) -> dict[str, Any]:
    """Return a form's values that ask for what a job was submitted with, but its credentials."""
    in_credits = variants.current().cap_field == "maxCredits"
    cap = job.ceiling_credits if in_credits else job.ceiling_runtime_seconds
    names = {priority: name for name, priority in PRIORITIES.items()}
    return {
        "client": job.client_id,
        "profile": profile,
        "channel": job.channel,
        "branch": job.git_branch,
        "build": str(job.pinned_build_id or ""),
        "stages": job.multi_stage,
        "priority": names[Priority(job.priority)],
        "cap": None if job.max_credits is None else cap,
        "queue_seconds": job.ceiling_queue_seconds,
        "html": job.html,
        "csv": job.csv,
        "json_version": job.json_version,
        "metadata": "\n".join(f"{name}: {' '.join(value.split())}" for name, value in job.metadata.items()),
    }
