"""The job form: builds an API request from its fields and submits it.

The API validates the request; its errors are shown next to the fields they concern.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from clients import accounts, form_tokens, rate_limits
from clients.errors import FormAlreadySent, InvalidFormToken
from clients.members import Role
from clients.models import Client
from dashboard.access import AccountAccess, account_page
from dashboard.forms import form_data
from dashboard.jobs import fight_controls
from dashboard.jobs.job_check import check_of, lines_in_context, listed
from dashboard.jobs.job_list import clients_of
from dashboard.jobs.run_again import initial_values
from jobs import api_mode
from jobs.api.errors import (
    BuildPinNotAllowed,
    BuildPinUnavailable,
    InsufficientCredits,
    ProfileRefused,
    TooManyVariants,
    WebhookNotConfigured,
)
from jobs.api.submission_request import MAX_PROFILE_BYTES, from_json, set_at_path
from jobs.enums import Channel, Priority
from jobs.errors import JobsError, ProfileRejected
from jobs.models import Build
from jobs.planning import multistage
from jobs.results import queries
from jobs.results.labels import duration
from jobs.submission import accept, dry_run, first_steps, shortage, validation
from jobs.submission.accept import Accepted
from jobs.submission.request import Submission
from jobs.submission.validation import Sender
from simc.profiles.analysis import Analysis
from simservice.api.errors import ApiError, ProfileTooLarge, RateLimitExceeded, ValidationFailed
from simservice.api.exception_handler import as_api_error

PURPOSE = "job"
OLD_FORM = "This form has expired. Nothing was submitted. Submit it again."
# The path of each field in the API request.
REQUEST_PATHS = {
    "channel": "build.channel",
    "branch": "build.gitBranch",
    "build": "build.id",
    "profile": "profile.text",
    "stages": "runtime.multiStage",
    "queue_seconds": "runtime.maxQueueSeconds",
    "priority": "priority",
    "metadata": "metadata",
    "title": "metadata.title",
    "game_id": "credentials.bnetClientId",
    "game_secret": "credentials.bnetClientSecret",
    "webhook": "webhook.events",
    "html": "artifacts.html",
    "csv": "artifacts.csv",
    "json_version": "artifacts.json.version",
    "hide_inputs": "artifacts.hideInputs",
}
# The field that each error without a path concerns.
ERROR_FIELDS: dict[type[ApiError], str] = {
    ProfileRefused: "profile",
    ProfileTooLarge: "profile",
    TooManyVariants: "profile",
    BuildPinNotAllowed: "build",
    BuildPinUnavailable: "build",
    WebhookNotConfigured: "webhook",
}
# Fields that matter only to programs, which the page folds away
DEVELOPER_OPTIONS = (
    "client channel branch build priority queue_seconds json_version webhook metadata game_id game_secret".split()
)
CAP_LABELS = {"maxCredits": "Credit limit", "maxRuntimeSeconds": "Runtime limit (seconds)"}
LISTED_PROFILES = 8
PROFILE_HELP = (
    "Install the SimulationCraft addon, type /simc in the game and copy the text. A .simc file of up to 2 MB works "
    "too."
)
PLACEHOLDER = 'mage="Frosty"\nlevel=80\nspec=frost\ntalents=…\nhead=,id=…'
NO_WEBHOOK = "This client has no enabled webhook. Enable it on the client's page, or choose another client."
# The page's script shows them too.
TOO_LARGE = "The profile is larger than 2 MB. Split it into several jobs."
NOT_UTF_8 = "The file is not UTF-8 text. Save it as UTF-8, or paste its text."


class JobForm(forms.Form):
    """All options of a job. The form of `fight_controls` is part of it."""

    form = forms.CharField(widget=forms.HiddenInput, required=False)
    profile = forms.CharField(
        strip=False,
        widget=forms.Textarea(
            attrs={
                "rows": 14,
                "spellcheck": "false",
                "autocapitalize": "off",
                "wrap": "off",
                "placeholder": PLACEHOLDER,
            }
        ),
        help_text=PROFILE_HELP,
    )
    file = forms.FileField(
        label="Profile file",
        required=False,
        widget=forms.FileInput(attrs={"accept": ".simc,.txt,text/plain"}),
        help_text="Replaces the text below.",
    )
    title = forms.CharField(required=False, help_text="Shown to your account only.")
    client = forms.ChoiceField(
        required=False, help_text="The job counts toward this client's usage and can notify its webhook."
    )
    channel = forms.ChoiceField(label="Build channel", choices=Channel.choices, initial=Channel.LATEST)
    branch = forms.ChoiceField(label="Branch", choices=[(name, name) for name in settings.GIT_BRANCHES])
    build = forms.ChoiceField(label="Pinned build", required=False, help_text="Overrides the build channel.")
    stages = forms.ChoiceField(
        label="Variants",
        required=False,
        choices=fight_controls.STAGE_CHOICES,
        help_text=fight_controls.STAGES_HELP,
    )
    priority = forms.ChoiceField(
        choices=[(each.api_name, each.label) for each in Priority], initial=Priority.STANDARD.api_name
    )
    cap = forms.IntegerField(required=False)
    queue_seconds = forms.IntegerField(label="Queue limit (seconds)", required=False)
    html = forms.BooleanField(label="HTML report", required=False)
    csv = forms.BooleanField(label="CSV table", required=False)
    json_version = forms.TypedChoiceField(
        label="JSON report", choices=[(2, "Version 2"), (3, "Version 3 (experimental)")], coerce=int, initial=2
    )
    hide_inputs = forms.BooleanField(label="Hide the profile and the logs on the share link", required=False)
    webhook = forms.BooleanField(label="Notify the client's webhook when the job ends", required=False)
    metadata = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="One entry per line, for example “raid: Liberation”. Returned unchanged with the job.",
    )
    game_id = forms.CharField(label="Game API client ID", required=False)
    game_secret = forms.CharField(
        label="Game API client secret",
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Enter both or neither. Encrypted, never shown, and deleted when the job ends.",
    )

    def __init__(self, access: AccountAccess, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["profile"].required = "file" not in self.files
        plan = access.account.plan
        self.fields |= fight_controls.fields()
        clients = list(clients_of(access.account))
        self.fields["client"].choices = clients  # type: ignore[attr-defined]
        self.has_several_clients = len(clients) > 1
        self.high_priority_costs = bool(plan.high_priority_fee_credits)
        pins = _pinnable_builds() if plan.allows_build_pin else []
        self.fields["build"].choices = [("", "None"), *pins]  # type: ignore[attr-defined]
        for name, has_no_choice in (("build", not pins), ("branch", len(settings.GIT_BRANCHES) == 1)):
            if has_no_choice:
                del self.fields[name]
        cap, queue_seconds = self.fields["cap"], self.fields["queue_seconds"]
        cap_field = api_mode.current().cap_field
        self.request_paths = REQUEST_PATHS | {"cap": f"runtime.{cap_field}"}
        cap.label = CAP_LABELS[cap_field]
        rate = plan.credits_per_second
        limits = {
            "maxCredits": (rate, plan.max_credits_per_job),
            "maxRuntimeSeconds": (1, plan.max_runtime_seconds),
        }
        least, most = limits[cap_field]
        cap.help_text = f"{least:,} to {most:,}. Each started second of simulation costs {rate:,} credits."
        queue_seconds.help_text = (
            f"Up to {plan.max_queue_seconds:,} ({duration(plan.max_queue_seconds)}). The job fails if it has not "
            "started by then."
        )
        self.has_written = False
        self.fields["game_id"].widget.attrs["autocomplete"] = "off"

    def clean_file(self) -> str:
        """Return the text of the file, empty without one. It becomes the profile, even if the form is rejected."""
        chosen = self.cleaned_data["file"]
        if chosen is None:
            return ""
        if chosen.size > MAX_PROFILE_BYTES:
            raise ValidationError(TOO_LARGE)
        try:
            text = chosen.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValidationError(NOT_UTF_8) from None
        self._change(profile=text)
        return str(text)

    def clean(self) -> None:
        """Write the chosen controls into the profile. They are empty afterwards, also if the form is rejected."""
        text, chosen = self.cleaned_data.get("profile"), self._chosen()
        if not text or not any(chosen.values()):
            return
        self._change(profile=fight_controls.written(text, chosen), **dict.fromkeys(chosen, ""))
        self.has_written = True

    def _chosen(self) -> dict[str, str]:
        return {
            name: self.cleaned_data.get(name, "") for name in (*fight_controls.CONTROLS, fight_controls.PRECISION)
        }

    def _change(self, **values: str) -> None:
        """Give fields other values, also those that the page shows."""
        self.data = data = cast(QueryDict, self.data).copy()
        for name, value in values.items():
            data[name] = self.cleaned_data[name] = value

    @property
    def fight(self) -> list[forms.BoundField]:
        """Return the controls of the fight. Their empty choice says what the profile contains."""
        words = fight_controls.in_words(self["profile"].value() or "")
        for name, shown in words.items():
            choices: list[tuple[str, str]] = self.fields[name].choices  # type: ignore[attr-defined]
            self.fields[name].choices = [("", shown), *choices[1:]]  # type: ignore[attr-defined]
        return [self[name] for name in words]

    @property
    def unfolds_developer_options(self) -> bool:
        """Return whether a developer option has an error, so that the page must show it."""
        return any(name in self.errors for name in DEVELOPER_OPTIONS)

    def profile_text(self) -> str:
        """Return the profile of a valid form, with the line breaks of the API."""
        return str(self.cleaned_data["profile"]).replace("\r\n", "\n")

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the API request, without empty fields."""
        body: dict[str, Any] = {}
        values = self.cleaned_data | {"profile": self.profile_text()}
        # One entry per line. A line without a colon has an empty value.
        entries = (line.partition(":") for line in values["metadata"].splitlines() if line.strip())
        values["metadata"] = {name.strip(): value.strip() for name, _, value in entries}
        values["webhook"] = values["webhook"] and ["job.terminal"]
        values["stages"] = values["stages"] == fight_controls.STAGES
        for name, path in self.request_paths.items():
            value = values.get(name)
            # Zero is not empty: the API rejects it.
            if value or (value == 0 and value is not False):
                set_at_path(body, path, value)
        return body

    def add_api_error(self, error: ApiError) -> None:
        """Show an API error next to the field it concerns."""
        if isinstance(error, ValidationFailed):
            for issue in error.issues:
                self.add_error(self._field_at(issue["path"]), issue["message"])
        else:
            field = ERROR_FIELDS.get(type(error), NON_FIELD_ERRORS)
            self.add_error(field if field in self.fields else NON_FIELD_ERRORS, message_of(error))

    def _field_at(self, path: str) -> str:
        paths = {name: own for name, own in self.request_paths.items() if name in self.fields}
        # The longest path comes first: `metadata.title` has a field of its own.
        containing = sorted((own for own in paths.values() if path.startswith(own)), key=len, reverse=True)
        matching = [*containing, *(own for own in paths.values() if own.startswith(f"{path}."))]
        return next((name for own in matching for name in paths if paths[name] == own), NON_FIELD_ERRORS)


def message_of(error: ApiError) -> str:
    """Return the text of an API error for the form."""
    meta = error.meta or {}
    if isinstance(error, WebhookNotConfigured):
        return NO_WEBHOOK
    if isinstance(error, InsufficientCredits):
        return f"{error.message} The job needs {meta['requiredCredits']:,} credits. {_affordable_limit(meta)}"
    if isinstance(error, RateLimitExceeded) and meta["limit"] != "storage":
        return "Too many requests or too much data. Try again in a minute."
    return str(meta.get("message", error.message))


def _affordable_limit(meta: Mapping[str, Any]) -> str:
    if not meta["maxAffordableRuntimeSeconds"]:
        return "Add credits, then try again."
    if api_mode.current().cap_field == "maxCredits":
        return f"Lower the credit limit to {meta['maxAffordableCredits']:,} or less."
    return f"Lower the runtime limit to {meta['maxAffordableRuntimeSeconds']:,} s or less."


def _pinnable_builds() -> list[tuple[str, str]]:
    """Return the builds that a job can be pinned to, as choices."""
    builds = Build.objects.filter(git_branch__in=settings.GIT_BRANCHES, withdrawn_at=None).order_by("-created_at")
    return [(str(build.pk), f"{build}, {build.created_at:%Y-%m-%d}") for build in builds[:100]]


@dataclass(frozen=True, kw_only=True)
class ByFormToken:
    """A form that creates at most one job (`accept.SubmitOnce`)."""

    form: str
    user_id: int

    def find_replay(self) -> None:
        """Raise FormAlreadySent if the form has already created a job, or InvalidFormToken."""
        form_tokens.require_unused(self.form, self.user_id, PURPOSE)

    @contextmanager
    def storing(self) -> Iterator[None]:
        """Mark the form as used in the transaction that stores the job. Raises FormAlreadySent."""
        with transaction.atomic():
            form_tokens.use(self.form, self.user_id, PURPOSE)
            yield

    def record(self, accepted: Accepted) -> None:
        """Return None: a form has no idempotency key."""


def submit_once(
    access: AccountAccess, submission: Submission, *, client: Client, form: str, analysis: Analysis | None = None
) -> Accepted:
    """Submit a job of a form. Raises a JobsError, FormAlreadySent or InvalidFormToken."""
    once = ByFormToken(form=form, user_id=access.user.pk)
    # A repeated form raises an error instead of a replay.
    return cast(Accepted, accept.submit(submission, sender=Sender(client), once=once, analysis=analysis))


@account_page(post=Role.MEMBER)
def submit_job(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Show the job form, prefilled from an earlier job if requested; submit a job."""
    initial = initial_values(request, access)
    if "sample" in request.GET:
        initial["profile"] = first_steps.SAMPLE.read_text()
    form = JobForm(access, form_data(request), request.FILES or None, initial=initial)
    rejected: list[dict[str, Any]] = []
    if request.method == "POST" and form.is_valid():
        try:
            return _submit(request, access, form)
        except FormAlreadySent:
            messages.info(request, "This form was already submitted. Its job is in the list.")
            return redirect("jobs", access.account.name)
        except InvalidFormToken:
            form.add_error(NON_FIELD_ERRORS, OLD_FORM)
        except (ApiError, JobsError) as error:
            if isinstance(error, ProfileRejected):
                rejected = lines_in_context(form.profile_text(), error.refusals)
            form.add_api_error(as_api_error(error))
    return _page(request, access, form, rejected=rejected)


@account_page(post=Role.MEMBER, get=False)
def check_job(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Show what the form's job would run and cost, or why it would be refused. Submit nothing.

    The page's script sends `part` to get only the result. Other pages send `paste` to open the form with a profile.
    """
    form, check = JobForm(access, request.POST, request.FILES), None
    rejected: list[dict[str, Any]] = []
    profile = request.POST.get("profile", "")
    if "paste" in request.POST or ("part" in request.POST and not profile.strip()):
        return _page(request, access, JobForm(access, initial={"profile": profile}))
    if form.is_valid():
        try:
            rate_limits.spend_check(request, access.account)
            submission, analysis = _submission_of(form)
            found = dry_run.run(submission, sender=Sender(_client_of(access, form)), analysis=analysis)
        except ApiError as error:
            form.add_api_error(error)
        else:
            check = check_of(found, plan=access.account.plan)
            rejected = lines_in_context(form.profile_text(), found.refusals)
            if found.refusal:
                form.add_api_error(as_api_error(found.refusal))
    return _page(request, access, form, rejected=rejected, check=check)


def _page(
    request: HttpRequest,
    access: AccountAccess,
    form: JobForm,
    *,
    rejected: Sequence[Mapping[str, Any]] = (),
    check: dict[str, Any] | None = None,
) -> HttpResponse:
    """Render the form with the result of its check, or only that result."""
    context = {"section": "submit_job", "form": form, "check": check, "rejected": rejected}
    if "part" in request.POST:
        return render(request, "dashboard/job_check.html", context)
    # The browser focuses the first field with an error.
    if first := next((field for name, field in form.fields.items() if name in form.errors), None):
        first.widget.attrs["autofocus"] = True
    context |= {
        "shortage": shortage.find(access.account),
        "recent": queries.recent_profiles(access.account, count=LISTED_PROFILES) if access.may_change else [],
        "token": form_tokens.issue(access.user.pk, PURPOSE),
        "max_bytes": MAX_PROFILE_BYTES,
        "words": {"too_large": TOO_LARGE, "not_text": NOT_UTF_8},
    }
    return render(request, "dashboard/submit_job.html", context)


def _submit(request: HttpRequest, access: AccountAccess, form: JobForm) -> HttpResponse:
    """Submit the form's job. Raises an ApiError, a JobsError, FormAlreadySent or InvalidFormToken."""
    rate_limits.spend(request, rate_limits.submission_limit(access.account))
    rate_limits.spend_bytes(request, access.account)
    submission, analysis = _submission_of(form)
    client, token = _client_of(access, form), form.cleaned_data["form"]
    accepted = submit_once(access, submission, client=client, form=token, analysis=analysis)
    messages.success(request, "Job submitted.")
    for warning in listed(accepted.warnings):
        messages.warning(request, warning)
    return redirect("job", access.account.name, accepted.job.pk)


def _submission_of(form: JobForm) -> tuple[Submission, Analysis | None]:
    """Return the submission of a form, and the analysis of its profile if that decides about stages."""
    submission = from_json(form.body())
    if form.cleaned_data["stages"] != fight_controls.AUTOMATIC:
        return submission, None
    analysis = validation.analysis_of(submission)
    return replace(submission, multi_stage=multistage.by_default(analysis)), analysis


def _client_of(access: AccountAccess, form: JobForm) -> Client:
    """Return the chosen client, by default the built-in one: nobody needs to know clients to submit a profile."""
    chosen = form.cleaned_data["client"]
    clients = Client.objects.filter(account=access.account)
    client = clients.get(pk=chosen) if chosen else accounts.default_client(access.account)
    client.account = access.account
    return client
