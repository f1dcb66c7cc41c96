"""A client's webhook: where its events go, its secret, and switching it off."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import NON_FIELD_ERRORS
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from clients import once
from clients.members import Role
from clients.models import Client
from dashboard.access import Place, account_page
from dashboard.clients import OLD_FORM, find_client
from dashboard.deliveries import log_of
from dashboard.forms import sent
from jobs import webhook_events
from webhooks import endpoints
from webhooks.addresses import Refused
from webhooks.endpoints import NotPossible
from webhooks.models import MAX_URL, Endpoint

HOURS = ((0, "None"), (1, "1 hour"), (24, "1 day"), (72, "3 days"), (168, "7 days"))
FORM = "webhook"
SENT_BEFORE = "That form was sent before, and did its work then; nothing more was done."


class UrlForm(forms.Form):
    """Where events go. What a URL may be is `webhooks.addresses`' to say."""

    url = forms.CharField(
        label="Address",
        max_length=MAX_URL,
        help_text="A public https:// address that takes POST requests.",
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/hooks", "autocomplete": "off"}),
    )


class EnableForm(UrlForm):
    """The same, with a token, so that sending it again makes no second secret."""

    form = forms.CharField(widget=forms.HiddenInput, required=False)


class RotateForm(forms.Form):
    """How long the old secret also signs deliveries."""

    hours = forms.TypedChoiceField(
        label="Overlap",
        choices=HOURS,
        coerce=int,
        initial=0,
        help_text="How long deliveries are also signed with the old secret. Choose “None” if it has been exposed.",
    )
    form = forms.CharField(widget=forms.HiddenInput, required=False)


@account_page(post=Role.MEMBER)
def webhook(request: HttpRequest, place: Place, client_id: int) -> HttpResponse:
    """Show a client's webhook and what was sent to it; enable it, the new secret standing in the answer only."""
    client = find_client(place, client_id)
    endpoint = endpoints.of(client)
    form = EnableForm(sent(request), initial={"url": endpoint.url if endpoint else ""})
    if form.is_valid():
        made = answer_with_secret(request, place, client, form, lambda: enable(place, client, form))
        if made is not None:
            return made
    context = {**about(place, client, endpoint), "form": form, **log_of(request, place, client)}
    return render(request, "dashboard/webhook.html", context)


def enable(place: Place, client: Client, form: EnableForm) -> str:
    """Enable a webhook as a form says, once, and return its secret. Raises what `answer_with_secret` tells."""
    url = form.cleaned_data["url"]
    endpoints.require_own(client)
    # Asks the resolver, so it comes before the transaction.
    endpoints.check_url(url)
    with transaction.atomic():
        once.use(form.cleaned_data["form"], place.user.pk, FORM)
        return endpoints.install(client, url, by=place.actor)


@account_page(post=Role.MEMBER)
def rotate(request: HttpRequest, place: Place, client_id: int) -> HttpResponse:
    """Give a webhook a new secret, which stands in the answer and nowhere else."""
    client = find_client(place, client_id)
    form = RotateForm(sent(request))
    if form.is_valid():
        made = answer_with_secret(request, place, client, form, lambda: rotate_once(place, client, form))
        if made is not None:
            return made
    context = {**about(place, client, endpoints.of(client)), "form": form}
    return render(request, "dashboard/webhook_rotate.html", context)


def rotate_once(place: Place, client: Client, form: RotateForm) -> str:
    """Rotate a secret as a form says, once, and return the new one. Raises what `answer_with_secret` tells."""
    with transaction.atomic():
        once.use(form.cleaned_data["form"], place.user.pk, FORM)
        overlap = timedelta(hours=form.cleaned_data["hours"])
        return endpoints.rotate(client, by=place.actor, overlap=overlap)


def answer_with_secret(
    request: HttpRequest, place: Place, client: Client, form: forms.Form, make: Callable[[], str]
) -> HttpResponse | None:
    """Return the only page that shows the secret `make` returns; None when the form has been told why not."""
    try:
        secret = make()
    except once.SentBefore:
        context = {**about(place, client, None), "client": client}
        return render(request, "dashboard/webhook_secret_before.html", context, status=409)
    except once.TooOld:
        form.add_error(NON_FIELD_ERRORS, OLD_FORM)
    except Refused as refused:
        form.add_error("url", str(refused))
    except NotPossible as reason:
        form.add_error(NON_FIELD_ERRORS, str(reason))
    else:
        context = {**about(place, client, endpoints.of(client)), "secret": secret}
        return render(request, "dashboard/webhook_secret.html", context)
    return None


def about(place: Place, client: Client, endpoint: Endpoint | None) -> dict[str, Any]:
    """Return what all pages of a webhook need."""
    token = once.new_form(place.user.pk, FORM)
    return {"section": "clients", "client": client, "endpoint": endpoint, "token": token}


@account_page(post=Role.MEMBER)
def change_url(request: HttpRequest, place: Place, client_id: int) -> HttpResponse:
    """Send a client's events elsewhere; its secret stays."""
    client = find_client(place, client_id)
    endpoint = endpoints.of(client)
    form = UrlForm(sent(request), initial={"url": endpoint.url if endpoint else ""})
    if form.is_valid():
        try:
            endpoints.set_url(client, form.cleaned_data["url"], by=place.actor)
        except Refused as refused:
            form.add_error("url", str(refused))
        except NotPossible as reason:
            form.add_error(NON_FIELD_ERRORS, str(reason))
        else:
            messages.success(request, "From now on, events go to the new address.")
            return redirect("webhook", place.account.name, client.pk)
    return render(request, "dashboard/webhook_url.html", {**about(place, client, endpoint), "form": form})


@account_page(post=Role.MEMBER, get=False)
def disable(request: HttpRequest, place: Place, client_id: int) -> HttpResponse:
    """Send nothing more, and forget the secret."""
    client = find_client(place, client_id)
    try:
        endpoints.disable(client, by=place.actor)
    except NotPossible as reason:
        messages.error(request, str(reason))
    else:
        messages.success(request, "The webhook is disabled and its secret forgotten.")
    return redirect("webhook", place.account.name, client.pk)


@account_page(post=Role.MEMBER, get=False)
def send_test(request: HttpRequest, place: Place, client_id: int) -> HttpResponse:
    """Send an event that looks like that of a job."""
    client = find_client(place, client_id)
    try:
        with transaction.atomic():
            once.use(request.POST.get("form", ""), place.user.pk, FORM)
            event = webhook_events.send_test_event(client)
    except once.SentBefore:
        messages.info(request, SENT_BEFORE)
    except once.TooOld:
        messages.error(request, OLD_FORM)
    except NotPossible as reason:
        messages.error(request, str(reason))
    else:
        messages.success(request, "A test event is on its way. Reload this page to see its attempts.")
        return redirect("event", place.account.name, event.name)
    return redirect("webhook", place.account.name, client.pk)
