"""What was sent to a client's webhook: each event with its attempts, and sending it again."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import NON_FIELD_ERRORS
from django.db import transaction
from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from clients import form_tokens
from clients.errors import FormAlreadySent, InvalidFormToken
from clients.members import Role
from clients.models import Client
from dashboard.access import Place, account_page
from dashboard.clients import OLD_FORM, find_client
from dashboard.forms import sent
from dashboard.paging import page_of
from jobs import queries
from webhooks import endpoints, redelivery
from webhooks.endpoints import NotPossible
from webhooks.models import Delivery, Event

FORM = "event"
MINUTE = "%Y-%m-%dT%H:%M"


class PeriodForm(forms.Form):
    """A period, to the minute."""

    since = forms.DateTimeField(label="From (UTC)")
    until = forms.DateTimeField(label="To (UTC)")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format=MINUTE)

    def clean(self) -> dict[str, Any]:
        """Refuse a period that ends before it begins."""
        given: dict[str, Any] = super().clean() or {}
        if {"since", "until"} <= given.keys() and given["since"] >= given["until"]:
            self.add_error("until", "The end must come after the beginning.")
        return given


def log_of(request: HttpRequest, place: Place, client: Client) -> dict[str, Any]:
    """Return a page of a client's events, each with its last attempt and its job's title. Four queries."""
    only_failed = request.GET.get("show") == "failed"
    wanted = redelivery.events_of(client)
    if only_failed:
        wanted = wanted.filter(state=Event.State.FAILED)
    page = page_of(request, wanted, account_id=place.account.pk)
    titles = queries.titles_of(place.account, [event.job_id for event in page.rows if event.job_id])
    log = [{**row, "title": titles.get(row["event"].job_id)} for row in with_attempts(page.rows)]
    return {"page": page, "log": log, "only_failed": only_failed}


def with_attempts(listed: Sequence[Event]) -> list[dict[str, Any]]:
    """Return events with the number of their attempts and the last of these. Two queries."""
    counted = Delivery.objects.filter(event__in=listed).values("event_id")
    rows = {row["event_id"]: row for row in counted.annotate(attempts=Count("pk"), newest=Max("pk"))}
    newest = Delivery.objects.in_bulk([row["newest"] for row in rows.values()])
    none = {"attempts": 0, "newest": None}
    told = ((event, rows.get(event.pk, none)) for event in listed)
    return [{"event": event, "attempts": row["attempts"], "last": newest.get(row["newest"])} for event, row in told]


@account_page(post=Role.MEMBER)
def event(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """Show an event with all its attempts; send it again."""
    found = get_object_or_404(Event.objects.select_related("client"), name=name, client__account=place.account)
    if request.method == "POST":
        send_again(request, place, found)
        return redirect("event", place.account.name, found.name)
    page = page_of(request, Delivery.objects.filter(event=found), account_id=place.account.pk)
    context = {
        "section": "clients",
        "event": found,
        "title": queries.titles_of(place.account, [found.job_id] if found.job_id else []).get(found.job_id or 0),
        "client": found.client,
        "body": bytes(found.body).decode(),
        "page": page,
        "is_enabled": endpoints.is_enabled(found.client),
        "token": form_tokens.issue(place.user.pk, FORM),
    }
    return render(request, "dashboard/event.html", context)


def send_again(request: HttpRequest, place: Place, found: Event) -> None:
    """Send an event again, once for each form, and tell how it went."""
    try:
        with transaction.atomic():
            form_tokens.use(request.POST.get("form", ""), place.user.pk, FORM)
            is_sent = redelivery.redeliver(found)
    except FormAlreadySent:
        messages.info(request, "That form was sent before; the event is not sent once more.")
    except InvalidFormToken:
        messages.error(request, OLD_FORM)
    except NotPossible as reason:
        messages.error(request, str(reason))
    else:
        told = "The event is sent again." if is_sent else "The event is being sent just now."
        messages.success(request, f"{told} Reload this page to see its attempts.")


@account_page(post=Role.MEMBER)
def send_failed(request: HttpRequest, place: Place, client_id: int) -> HttpResponse:
    """Send all events of a period again that were given up. Sent twice, the form finds nothing left to do."""
    client = find_client(place, client_id)
    now = timezone.now()
    period = {"since": now - timedelta(days=1), "until": now + timedelta(minutes=1)}
    form = PeriodForm(sent(request), initial=period)
    if form.is_valid():
        try:
            count = redelivery.redeliver_failed(client, **form.cleaned_data)
        except NotPossible as reason:
            form.add_error(NON_FIELD_ERRORS, str(reason))
        else:
            messages.success(
                request, f"{count:,} events are sent again." if count != 1 else "1 event is sent again."
            )
            return redirect("webhook", place.account.name, client.pk)
    return render(request, "dashboard/send_failed.html", {"section": "clients", "client": client, "form": form})
