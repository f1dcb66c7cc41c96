"""Pages of webhook events and their attempts, and resending events."""

import json
import shlex
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import NON_FIELD_ERRORS
from django.db import transaction
from django.db.models import Count, Max, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from clients import form_tokens
from clients.errors import FormAlreadySent, InvalidFormToken
from clients.members import Role
from clients.models import Client
from dashboard.access import AccountAccess, account_page
from dashboard.account.clients import OLD_FORM, find_client
from dashboard.forms import form_data
from dashboard.paging import page_of
from jobs.results import queries
from simservice.postgresql.connections import StatementTimeout, statement_timeout
from webhooks import endpoints, health, labels, signing
from webhooks.endpoints import EndpointError
from webhooks.events import Redelivery, events_of, redeliver, redeliver_failed
from webhooks.models import Delivery, Endpoint, Event

FORM = "event"
STATEMENT_TIMEOUT_MS = 1_000
INPUT = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
RELOAD = "Reload this page to see its attempts."
REDELIVERY_MESSAGES = {
    Redelivery.SCHEDULED: f"Event queued. {RELOAD}",
    Redelivery.IN_FLIGHT: f"The event is already being sent. {RELOAD}",
    Redelivery.GONE: "The event no longer exists.",
}


class PeriodForm(forms.Form):
    """A period in minutes, UTC."""

    since = forms.DateTimeField(label="From (UTC)", widget=INPUT)
    until = forms.DateTimeField(label="To (UTC)", widget=INPUT)

    def clean(self) -> dict[str, Any]:
        """Refuse a period that ends before it starts."""
        values: dict[str, Any] = super().clean() or {}
        if {"since", "until"} <= values.keys() and values["since"] >= values["until"]:
            self.add_error("until", "The end must be after the start.")
        return values


class EventFilters(forms.Form):
    """Filters of a client's events."""

    state = forms.ChoiceField(label="Status", required=False, choices=[("", "Any"), *labels.STATES.items()])
    since = forms.DateTimeField(label="From (UTC)", required=False, widget=INPUT)
    until = forms.DateTimeField(label="To (UTC)", required=False, widget=INPUT)

    @property
    def is_active(self) -> bool:
        return self.is_valid() and any(self.cleaned_data.values())


def log_of(request: HttpRequest, access: AccountAccess, client: Client) -> dict[str, Any]:
    """Return a page of a client's events, with their last attempts and their jobs' titles."""
    form = EventFilters(request.GET)
    context: dict[str, Any] = {"filters": form, "health": health.health_of(client)}
    if not form.is_valid():
        return context
    try:
        with statement_timeout(STATEMENT_TIMEOUT_MS):
            page = page_of(request, _filtered(client, form.cleaned_data), account_id=access.account.pk)
    except StatementTimeout:
        return context | {"timed_out": True}
    titles = queries.titles_of(access.account, [event.job_id for event in page.rows if event.job_id])
    counted = Delivery.objects.filter(event__in=page.rows).values("event_id")
    rows = {row["event_id"]: row for row in counted.annotate(attempts=Count("pk"), newest=Max("pk"))}
    newest = Delivery.objects.in_bulk([row["newest"] for row in rows.values()])
    log = [
        {
            "event": event,
            "title": titles.get(event.job_id or 0),
            "attempts": rows[event.pk]["attempts"] if event.pk in rows else 0,
            "last": newest.get(rows[event.pk]["newest"]) if event.pk in rows else None,
        }
        for event in page.rows
    ]
    return context | {"page": page, "log": log}


def _filtered(client: Client, filters: dict[str, Any]) -> QuerySet[Event]:
    """Return the client's events in a state, created in a period."""
    events = events_of(client)
    if filters["state"]:
        events = events.filter(state=filters["state"])
    if filters["since"]:
        events = events.filter(created_at__gte=filters["since"])
    return events.filter(created_at__lt=filters["until"]) if filters["until"] else events


@account_page(post=Role.MEMBER)
def event(request: HttpRequest, access: AccountAccess, name: str) -> HttpResponse:
    """Show an event with its attempts, or resend it."""
    shown = get_object_or_404(Event.objects.select_related("client"), name=name, client__account=access.account)
    if request.method == "POST":
        _resend(request, access, shown)
        return redirect("event", access.account.name, shown.name)
    page = page_of(request, Delivery.objects.filter(event=shown), account_id=access.account.pk)
    endpoint = endpoints.of(shown.client)
    context = {
        "section": "clients",
        "event": shown,
        "title": queries.titles_of(access.account, [shown.job_id] if shown.job_id else []).get(shown.job_id or 0),
        "client": shown.client,
        "body": _formatted(bytes(shown.body)),
        "page": page,
        "attempts": [_attempt(one, shown, endpoint) for one in page.rows],
        "is_enabled": endpoint is not None and endpoint.is_enabled,
        "token": form_tokens.issue(access.user.pk, FORM),
    }
    return render(request, "dashboard/event.html", context)


def _formatted(body: bytes) -> str:
    """Return a body with a line for each value; JSON is sent on one line."""
    return json.dumps(json.loads(body), indent=2, ensure_ascii=False)


def _attempt(one: Delivery, event: Event, endpoint: Endpoint | None) -> dict[str, Any]:
    """Return an attempt with the headers of its request and a command that repeats it, both empty if unknown."""
    if not one.signature:
        return {"delivery": one}
    headers = signing.signed_headers(one.signature, event=event.name, delivery=one.name)
    attempt = {"delivery": one, "headers": headers.items()}
    if endpoint is None:
        return attempt
    options = [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()]
    options.append(f"--data-raw {shlex.quote(bytes(event.body).decode())}")
    return attempt | {"command": " \\\n  ".join([f"curl {shlex.quote(endpoint.url)}", *options])}


def _resend(request: HttpRequest, access: AccountAccess, event: Event) -> None:
    """Resend an event, once for each form, and add a message with the result."""
    try:
        with transaction.atomic():
            form_tokens.use(request.POST.get("form", ""), access.user.pk, FORM)
            redelivery = redeliver(event)
    except FormAlreadySent:
        messages.info(request, "This form was already submitted. The event was resent only once.")
    except InvalidFormToken:
        messages.error(request, OLD_FORM)
    except EndpointError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, REDELIVERY_MESSAGES[redelivery])


@account_page(post=Role.MEMBER)
def send_failed(request: HttpRequest, access: AccountAccess, client_id: int) -> HttpResponse:
    """Resend all failed events of a period. Submitting the form twice resends nothing more."""
    client = find_client(access, client_id)
    now = timezone.now()
    initial = {"since": now - timedelta(days=1), "until": now + timedelta(minutes=1)}
    form = PeriodForm(form_data(request), initial=initial)
    if form.is_valid():
        try:
            count = redeliver_failed(client, **form.cleaned_data)
        except EndpointError as error:
            form.add_error(NON_FIELD_ERRORS, str(error))
        else:
            queued = "1 event queued." if count == 1 else f"{count:,} events queued."
            messages.success(request, queued if count else "No failed events in this period.")
            return redirect("webhook", access.account.name, client.pk)
    return render(request, "dashboard/send_failed.html", {"section": "clients", "client": client, "form": form})
