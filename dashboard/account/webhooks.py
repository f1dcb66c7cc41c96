"""Pages of a client's webhook: its URL, its signing secret, disabling it, and test events."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import NON_FIELD_ERRORS
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from clients import form_tokens
from clients.errors import FormAlreadySent, InvalidFormToken
from clients.members import Role
from clients.models import Client
from dashboard.access import AccountAccess, account_page
from dashboard.account.clients import OLD_FORM, find_client
from dashboard.account.deliveries import log_of
from dashboard.forms import form_data
from jobs.lifecycle import webhook_events
from simservice.network.addresses import MAX_URL, AddressRefused
from webhooks import endpoints, signing
from webhooks.endpoints import EndpointError
from webhooks.models import Endpoint

SNIPPETS = (("Python", "verify.py"), ("Node", "verify.js"))
OVERLAPS = ((0, "None"), (1, "1 hour"), (24, "1 day"), (72, "3 days"), (168, "7 days"))
FORM = "webhook"


class UrlForm(forms.Form):
    url = forms.CharField(
        label="URL",
        max_length=MAX_URL,
        help_text="A public https:// URL that accepts POST requests.",
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/hooks", "autocomplete": "off"}),
    )


class EnableForm(UrlForm):
    # A token, so that submitting the form twice creates one secret
    form = forms.CharField(widget=forms.HiddenInput, required=False)


class RotateForm(forms.Form):
    hours = forms.TypedChoiceField(
        label="Overlap",
        choices=OVERLAPS,
        coerce=int,
        initial=0,
        help_text="How long deliveries are also signed with the old secret. Choose “None” if it was exposed.",
    )
    form = forms.CharField(widget=forms.HiddenInput, required=False)


@account_page(post=Role.MEMBER)
def webhook(request: HttpRequest, access: AccountAccess, client_id: int) -> HttpResponse:
    """Show a client's webhook and its events; enable it, and show the new secret in the response only."""
    client = find_client(access, client_id)
    endpoint = endpoints.of(client)
    form = EnableForm(form_data(request), initial={"url": endpoint.url if endpoint else ""})
    if form.is_valid():
        page = _page_with_secret(request, access, client, form, lambda: _enable_once(access, client, form))
        if page is not None:
            return page
    context = {**_context_of(access, client, endpoint), "form": form, **log_of(request, access, client)}
    return render(request, "dashboard/webhook.html", context)


def _enable_once(access: AccountAccess, client: Client, form: EnableForm) -> str:
    """Return the secret of the enabled webhook. Raises what `_page_with_secret` handles."""
    url = form.cleaned_data["url"]
    endpoints.require_own(client)
    # Resolves a name, so it precedes the transaction.
    endpoints.check_url(url)
    with transaction.atomic():
        form_tokens.use(form.cleaned_data["form"], access.user.pk, FORM)
        return endpoints.install(client, url, by=access.actor)


@account_page(post=Role.MEMBER)
def rotate(request: HttpRequest, access: AccountAccess, client_id: int) -> HttpResponse:
    """Replace a webhook's secret, and show the new one in the response only."""
    client = find_client(access, client_id)
    form = RotateForm(form_data(request))
    if form.is_valid():
        page = _page_with_secret(request, access, client, form, lambda: _rotate_once(access, client, form))
        if page is not None:
            return page
    context = {**_context_of(access, client, endpoints.of(client)), "form": form}
    return render(request, "dashboard/webhook_rotate.html", context)


def _rotate_once(access: AccountAccess, client: Client, form: RotateForm) -> str:
    """Return the new secret. Raises what `_page_with_secret` handles."""
    with transaction.atomic():
        form_tokens.use(form.cleaned_data["form"], access.user.pk, FORM)
        overlap = timedelta(hours=form.cleaned_data["hours"])
        return endpoints.rotate(client, by=access.actor, overlap=overlap)


def _page_with_secret(
    request: HttpRequest, access: AccountAccess, client: Client, form: forms.Form, create: Callable[[], str]
) -> HttpResponse | None:
    """Return the only page that shows the secret `create` returns, or None after adding an error to the form."""
    try:
        secret = create()
    except FormAlreadySent:
        context = {**_context_of(access, client, None), "client": client}
        return render(request, "dashboard/webhook_secret_before.html", context, status=409)
    except InvalidFormToken:
        form.add_error(NON_FIELD_ERRORS, OLD_FORM)
    except AddressRefused as refused:
        form.add_error("url", str(refused))
    except EndpointError as error:
        form.add_error(NON_FIELD_ERRORS, str(error))
    else:
        context = {
            **_context_of(access, client, endpoints.of(client)),
            "secret": secret,
            "signature_header": signing.signature_header(),
            "snippets": _snippets(),
        }
        return render(request, "dashboard/webhook_secret.html", context)
    return None


def _snippets() -> list[tuple[str, str]]:
    """Return the examples of verification in the documentation, by language, with the deployment's header."""
    folder = Path(settings.BASE_DIR) / "examples" / "webhooks"
    texts = ((language, (folder / name).read_text(encoding="utf-8")) for language, name in SNIPPETS)
    return [(language, text.replace("X-Service-Signature", signing.signature_header())) for language, text in texts]


def _context_of(access: AccountAccess, client: Client, endpoint: Endpoint | None) -> dict[str, Any]:
    token = form_tokens.issue(access.user.pk, FORM)
    return {"section": "clients", "client": client, "endpoint": endpoint, "token": token}


@account_page(post=Role.MEMBER)
def change_url(request: HttpRequest, access: AccountAccess, client_id: int) -> HttpResponse:
    client = find_client(access, client_id)
    endpoint = endpoints.of(client)
    form = UrlForm(form_data(request), initial={"url": endpoint.url if endpoint else ""})
    if form.is_valid():
        try:
            endpoints.set_url(client, form.cleaned_data["url"], by=access.actor)
        except AddressRefused as refused:
            form.add_error("url", str(refused))
        except EndpointError as error:
            form.add_error(NON_FIELD_ERRORS, str(error))
        else:
            messages.success(request, "Webhook URL changed.")
            return redirect("webhook", access.account.name, client.pk)
    return render(request, "dashboard/webhook_url.html", {**_context_of(access, client, endpoint), "form": form})


@account_page(post=Role.MEMBER, get=False)
def disable(request: HttpRequest, access: AccountAccess, client_id: int) -> HttpResponse:
    """Disable a webhook and delete its secret."""
    client = find_client(access, client_id)
    try:
        endpoints.disable(client, by=access.actor)
    except EndpointError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "Webhook disabled and signing secret deleted.")
    return redirect("webhook", access.account.name, client.pk)


@account_page(post=Role.MEMBER, get=False)
def choose_events(request: HttpRequest, access: AccountAccess, client_id: int) -> HttpResponse:
    """Change whether a webhook gets low-credit events."""
    client = find_client(access, client_id)
    is_wanted = request.POST.get("low_credits") == "on"
    try:
        if endpoints.report_low_credits(client, is_wanted=is_wanted, by=access.actor):
            messages.success(request, f"Low-credit events are {'on' if is_wanted else 'off'}.")
    except EndpointError as error:
        messages.error(request, str(error))
    return redirect("webhook", access.account.name, client.pk)


@account_page(post=Role.MEMBER, get=False)
def send_test(request: HttpRequest, access: AccountAccess, client_id: int) -> HttpResponse:
    """Send a test event, once for each form."""
    client = find_client(access, client_id)
    try:
        with transaction.atomic():
            form_tokens.use(request.POST.get("form", ""), access.user.pk, FORM)
            event = webhook_events.send_test_event(client)
    except FormAlreadySent:
        messages.info(request, "This form was already submitted. Only one test event was sent.")
    except InvalidFormToken:
        messages.error(request, OLD_FORM)
    except EndpointError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "Test event queued. Reload this page to see its attempts.")
        return redirect("event", access.account.name, event.name)
    return redirect("webhook", access.account.name, client.pk)
