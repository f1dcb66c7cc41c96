"""Audit log of an account, for its owners."""

import html
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.html import format_html, strip_tags
from django.utils.safestring import SafeString, mark_safe

from billing.models import Account
from clients import audit
from clients.audit import Action
from clients.members import Role
from clients.models import AuditEvent
from dashboard.access import AccountAccess, account_page
from dashboard.account.csv_files import csv_response
from dashboard.paging import page_of
from jobs.lifecycle.usage import midnight
from simc.csv_report import harmless
from simservice.api.times import iso
from simservice.postgresql.connections import StatementTimeout, statement_timeout

STATEMENT_TIMEOUT_MS = 1_000
BATCH = 2_000
DATE = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
USER_ID = re.compile(r"[0-9]{0,18}")


@dataclass(frozen=True)
class ActionGroup:
    """A filter of the list; `targets` are the first parts of its actions."""

    name: str
    label: str
    targets: tuple[str, ...]

    @property
    def actions(self) -> list[Action]:
        return [action for action in Action if action.split(".")[0] in self.targets]


GROUPS = (
    ActionGroup("", "All", ()),
    ActionGroup("keys", "Keys", ("key",)),
    ActionGroup("webhooks", "Clients and webhooks", ("client", "webhook")),
    ActionGroup("people", "People", ("invitation", "member")),
    ActionGroup("account", "Plan and credits", ("account", "credits")),
    ActionGroup("jobs", "Jobs", ("job",)),
)
DESCRIPTIONS = {
    Action.KEY_CREATED: "Created key {target} ({name}) for client {client}",
    Action.KEY_RENAMED: "Renamed key {target} to {name}",
    Action.KEY_EXPIRY_CHANGED: "Changed the expiry of key {target} to {expires}",
    Action.KEY_SCOPE_CHANGED: "Changed the scope of key {target} from {old} to {new}",
    Action.KEY_ADDRESSES_CHANGED: "Changed the addresses of key {target} from {old} to {new}",
    Action.KEY_REVOKED: "Revoked key {target}",
    Action.CLIENT_CREATED: "Created client {target}",
    Action.WEBHOOK_ENABLED: "Enabled the webhook of client {target} (host: {host})",
    Action.WEBHOOK_ADDRESS_CHANGED: "Changed the webhook URL of client {target} (new host: {host})",
    Action.WEBHOOK_SECRET_ROTATED: "Rotated the signing secret of client {target} (overlap: {hours} h)",
    Action.WEBHOOK_DISABLED: "Disabled the webhook of client {target}",
    Action.WEBHOOK_EVENTS_CHANGED: "Turned low-credit events {new} for the webhook of client {target}",
    Action.INVITATION_CREATED: "Invited {target} as {role}",
    Action.INVITATION_REVOKED: "Revoked the invitation to {target}",
    Action.MEMBER_JOINED: "{target} joined as {role}",
    Action.MEMBER_ROLE_CHANGED: "Changed the role of {target} from {old} to {new}",
    Action.MEMBER_REMOVED: "Removed {target}",
    Action.MEMBER_LEFT: "{target} left the account",
    Action.ACCOUNT_PLAN_CHANGED: "Changed the plan from {old} to {new}",
    Action.ACCOUNT_RENAMED: "Renamed the account from {old} to {new}",
    Action.ACCOUNT_SUSPENDED: "Suspended the account",
    Action.ACCOUNT_RESUMED: "Lifted the account's suspension",
    Action.ACCOUNT_EXPORTED: "Exported the account's data",
    Action.ACCOUNT_DELETION_REQUESTED: "Requested the deletion of the account",
    Action.ACCOUNT_DELETION_UNDONE: "Undid the deletion of the account",
    Action.ACCOUNT_GRACE_PERIOD_ENDED: "Ended the grace period of the account's deletion",
    Action.ACCOUNT_SHARING_CHANGED: "Changed profiles and logs on share links to {new}",
    Action.CREDITS_GRANTED: "Granted {credits} credits: {reason}",
    Action.CREDITS_CORRECTED: "Corrected credits by {credits}: {reason}",
    Action.CREDITS_NOTICE_CHANGED: "Changed the low-credit notice from {old} to {new}",
    Action.JOB_CANCELLED: "Cancelled job {target}",
    Action.JOB_PAUSED: "Paused job {target}",
    Action.JOB_RESUMED: "Resumed job {target}",
    Action.JOB_RENAMED: "Changed the title of job {target} to {title}",
    Action.JOB_LINKS_REPLACED: "Replaced the public links of job {target}",
    Action.JOB_SHARING_CHANGED: "Changed the profile and logs on the share link of job {target} to {new}",
    Action.JOB_REQUEUED: "Returned job {target} to the queue",
    Action.JOB_RELEASED: "Marked job {target} as lost",
}
EMPTY_DETAILS = {"name": "no name", "expires": "never", "title": "its default"}


# The pages of changed objects, by the first part of the action
PAGES = {"job": "job", "key": "key", "client": "client", "webhook": "webhook"}
CSV_COLUMNS = ("at", "actor", "action", "target", "description", "address")


class Filters(forms.Form):
    """The filters of the list, except the type and the user."""

    since = forms.DateField(label="From (UTC)", required=False, widget=DATE)
    until = forms.DateField(label="To (UTC)", required=False, widget=DATE)
    text = forms.CharField(required=False, max_length=100, widget=forms.TextInput(attrs={"type": "search"}))


def _bounds(filters: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the form as the filters of `audit.matching`."""
    since, until = filters["since"], filters["until"]
    is_last = until is None or until == date.max
    return {
        "since": since and midnight(since),
        "until": None if is_last else midnight(until + timedelta(days=1)),
        "text": filters["text"],
    }


@dataclass(frozen=True)
class Query:
    """A requested list: the type, the user or None, and the other filters."""

    group: ActionGroup
    user_id: int | None
    form: Filters

    @classmethod
    def of(cls, request: HttpRequest) -> "Query":
        """Return the requested query. Raises Http404 for an unknown type or a malformed user."""
        groups = {group.name: group for group in GROUPS}
        about, by = request.GET.get("about", ""), request.GET.get("by", "")
        if about not in groups or not USER_ID.fullmatch(by):
            raise Http404
        return cls(groups[about], int(by) if by else None, Filters(request.GET))

    def events(self, account: Account) -> QuerySet[AuditEvent]:
        """Return the account's events that match. The form must be valid."""
        events = audit.events_of(account, actions=self.group.actions, user_id=self.user_id)
        return audit.matching(events, **_bounds(self.form.cleaned_data))


@account_page(read=Role.OWNER)
def audit_log(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """List changes, newest first."""
    query = Query.of(request)
    kept = {name: str(value) for name, value in request.GET.items() if value and name != "after"}
    context: dict[str, Any] = {
        "section": "audit",
        "group": query.group,
        "groups": [(each, _without(kept, "about", about=each.name)) for each in GROUPS],
        "user_id": query.user_id,
        "form": query.form,
        "by_everyone": _without(kept, "by"),
        "export": urlencode(kept),
    }
    if query.form.is_valid():
        context["is_filtered"] = any(query.form.cleaned_data.values())
        try:
            with statement_timeout(STATEMENT_TIMEOUT_MS):
                page = page_of(request, query.events(access.account), account_id=access.account.pk)
        except StatementTimeout:
            return render(request, "dashboard/audit.html", context | {"timed_out": True})
        context["page"] = page
        context["rows"] = [
            {"event": event, "description": description(event, account=access.account)} for event in page.rows
        ]
    return render(request, "dashboard/audit.html", context)


def _without(kept: Mapping[str, str], name: str, **others: str) -> str:
    """Return the query string without a parameter and with others, unless they are empty."""
    values = {**others, **{key: value for key, value in kept.items() if key != name}}
    return urlencode({key: value for key, value in values.items() if value})


@account_page(read=Role.OWNER)
def audit_csv(request: HttpRequest, access: AccountAccess) -> StreamingHttpResponse:
    """Return all matching changes as CSV, newest first. Raises Http404 for invalid filters."""
    query = Query.of(request)
    if not query.form.is_valid():
        raise Http404
    rows = (
        (
            iso(event.at),
            harmless(event.actor),
            event.action,
            harmless(event.target),
            harmless(html.unescape(strip_tags(description(event)))),
            event.address or "",
        )
        for event in _each(query.events(access.account))
    )
    return csv_response(f"{access.account}-audit.csv", CSV_COLUMNS, rows)


def _each(events: QuerySet[AuditEvent]) -> Iterator[AuditEvent]:
    """Yield events, newest first, read in batches."""
    ordered = events.order_by("-pk")
    batch = list(ordered[:BATCH])
    while batch:
        yield from batch
        batch = list(ordered.filter(pk__lt=batch[-1].pk)[:BATCH])


def description(event: AuditEvent, *, account: Account | None = None) -> SafeString:
    """Return the description of an event as HTML. Names cannot change the direction of the text around them.

    For an `account`, the changed job, key or client links to its page.
    """
    values = {name: value or EMPTY_DETAILS.get(name, value) for name, value in event.details.items()}
    isolated: defaultdict[str, object] = defaultdict(lambda: "?")
    for name, value in {"target": event.target, **values}.items():
        isolated[name] = format_html("<bdi>{}</bdi>", value)
    page = PAGES.get(event.action.split(".")[0])
    if account is not None and page and event.target_id is not None:
        address = reverse(page, args=[account.name, event.target_id])
        isolated["target"] = format_html('<a href="{}">{}</a>', address, isolated["target"])
    text = mark_safe(DESCRIPTIONS[Action(event.action)].format_map(isolated))  # noqa: S308 - all values are escaped
    if event.action == Action.ACCOUNT_SUSPENDED and event.details.get("reason"):
        text += format_html(": {}", isolated["reason"])
    if scope := event.details.get("scope"):
        text += format_html(", scope {}", scope)
    if event.action == Action.KEY_CREATED and event.details.get("addresses"):
        text += format_html(", addresses {}", isolated["addresses"])
    if keys := event.details.get("keys"):
        text += format_html(", and with it what {} API key{} can do", keys, pluralize(keys))
    return text
