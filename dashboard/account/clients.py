"""Clients of an account and their API keys."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.core.validators import RegexValidator
from django.db import transaction
from django.db.models import Count, Max
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from clients import accounts, addresses, form_tokens, keys
from clients.errors import (
    ClientNameTaken,
    FormAlreadySent,
    InvalidAddresses,
    InvalidFormToken,
    NotAMember,
    TooManyClients,
    TooManyKeys,
)
from clients.members import Role
from clients.models import ApiKey, Client
from dashboard.access import AccountAccess, account_page
from dashboard.forms import form_data
from dashboard.paging import page_of
from simservice.api.addresses import api_url
from simservice.api.scopes import Scope
from webhooks import endpoints

NEVER = 0
LIFETIMES = ((NEVER, "Never"), (7, "In 7 days"), (30, "In 30 days"), (90, "In 90 days"), (365, "In 1 year"))
SCOPES = (
    (Scope.READ, "Read"),
    (Scope.SUBMIT, "Submit: also submit jobs"),
    (Scope.MANAGE, "Manage: everything"),
)
KEY_FORM = "key"
OLD_FORM = "This form has expired. Nothing was changed. Submit it again."


class ClientForm(forms.Form):
    name = forms.CharField(
        max_length=64,
        help_text="Letters, digits, dots, hyphens and underscores, for example “guild-bot”.",
        validators=[
            RegexValidator(r"^[A-Za-z0-9._-]+\Z", "Use only letters, digits, dots, hyphens and underscores.")
        ],
    )


class RenameForm(forms.Form):
    name = forms.CharField(max_length=64, required=False, help_text="What the key is for, for example “CI server”.")


class AccessForm(forms.Form):
    """What a key may do, and from where."""

    # Most keys are for programs that submit jobs, and this is the least that they need.
    scope = forms.TypedChoiceField(
        choices=SCOPES,
        coerce=Scope,
        empty_value=Scope.SUBMIT,
        initial=Scope.SUBMIT,
        help_text="Read spends and changes nothing. Submit also checks, submits and cancels jobs. "
        "Manage also replaces public links.",
    )
    addresses = forms.CharField(
        label="IP addresses",
        required=False,
        max_length=addresses.MAX_CHARACTERS,
        widget=forms.Textarea(
            attrs={"rows": 2, "spellcheck": "false", "placeholder": "203.0.113.7, 2001:db8::/32"}
        ),
        help_text=f"Up to {addresses.MAX_NETWORKS} addresses or networks from which the key is accepted. "
        "Leave empty to accept it from everywhere.",
    )

    def clean_addresses(self) -> list[str]:
        """Return the networks. Raises ValidationError."""
        try:
            return addresses.parse(self.cleaned_data["addresses"])
        except InvalidAddresses as error:
            raise ValidationError(str(error)) from None


class KeyForm(AccessForm, RenameForm):
    """Form for a new key. Its token prevents a second key if the form is sent twice."""

    days = forms.TypedChoiceField(label="Expires", choices=LIFETIMES, coerce=int, initial=NEVER)
    form = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Scripts written before scopes existed do not send it.
        self.fields["scope"].required = False


@account_page(post=Role.MEMBER)
def clients(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """List the account's clients or create a client."""
    form = ClientForm(form_data(request))
    if form.is_valid():
        try:
            created = accounts.create_client(access.account, form.cleaned_data["name"], by=access.actor)
        except ClientNameTaken:
            form.add_error("name", "A client with this name already exists.")
        except TooManyClients as error:
            form.add_error(NON_FIELD_ERRORS, str(error))
        else:
            messages.success(request, f"Client {created.name} created.")
            return redirect("client", access.account.name, created.pk)
    others = Client.objects.filter(account=access.account, is_default=False)
    page = page_of(request, others, account_id=access.account.pk)
    default = [] if page.first else [accounts.default_client(access.account)]
    context = {
        "section": "clients",
        "page": page,
        "form": form,
        "clients": _with_key_counts([*default, *page.rows]),
        "switched_off": endpoints.switched_off(access.account),
    }
    return render(request, "dashboard/clients.html", context)


def _with_key_counts(listed: Sequence[Client]) -> list[dict[str, Any]]:
    """Return clients with the number of their active keys and the time of the last use of any key."""
    counted = ApiKey.objects.filter(client__in=listed).values("client_id")
    rows = {
        row["client_id"]: row
        for row in counted.annotate(keys=Count("pk", filter=keys.is_active()), used=Max("last_used_at"))
    }
    unused = {"keys": 0, "used": None}
    return [{**rows.get(client.pk, unused), "client": client} for client in listed]


@account_page(post=Role.MEMBER)
def client(request: HttpRequest, access: AccountAccess, client_id: int) -> HttpResponse:
    """Show a client with its keys or create a key. Only the response shows its secret."""
    found = find_client(access, client_id)
    form = KeyForm(form_data(request))
    if form.is_valid():
        try:
            with transaction.atomic():
                form_tokens.use(form.cleaned_data["form"], access.user.pk, KEY_FORM)
                days = form.cleaned_data["days"]
                key, secret = keys.create_key(
                    found,
                    by=access.actor,
                    name=form.cleaned_data["name"],
                    expires_at=timezone.now() + timedelta(days=days) if days else None,
                    scope=form.cleaned_data["scope"],
                    addresses=form.cleaned_data["addresses"],
                )
        except FormAlreadySent:
            return render(
                request, "dashboard/key_made_before.html", {"section": "clients", "client": found}, status=409
            )
        except NotAMember:
            raise Http404 from None
        except InvalidFormToken:
            form.add_error(NON_FIELD_ERRORS, OLD_FORM)
        except TooManyKeys as error:
            form.add_error(NON_FIELD_ERRORS, str(error))
        else:
            made = {"key": key, "secret": secret, "address": api_url(request)}
            return render(request, "dashboard/key_made.html", {"section": "clients", "client": found, **made})
    page = page_of(
        request,
        keys.with_access(ApiKey.objects.filter(client=found)).select_related("created_by"),
        account_id=access.account.pk,
    )
    context = {
        "section": "clients",
        "client": found,
        "endpoint": endpoints.of(found),
        "page": page,
        "form": form,
        "token": form_tokens.issue(access.user.pk, KEY_FORM),
    }
    return render(request, "dashboard/client.html", context)


@account_page(post=Role.MEMBER)
def key(request: HttpRequest, access: AccountAccess, key_id: int) -> HttpResponse:
    """Show or rename a key."""
    found = _find_key(access, key_id)
    form = RenameForm(form_data(request), initial={"name": found.name})
    if form.is_valid():
        keys.rename(found, form.cleaned_data["name"], by=access.actor)
        messages.success(request, f"Key {found} renamed.")
        return redirect("client", access.account.name, found.client_id)
    return _key_page(request, found, form=form)


def _key_page(request: HttpRequest, key: ApiKey, **forms_of_page: forms.Form) -> HttpResponse:
    access_form = AccessForm(initial={"scope": key.scope, "addresses": ", ".join(key.addresses)})
    standard = {"form": RenameForm(initial={"name": key.name}), "access_form": access_form}
    context = {"section": "clients", "key": key, **standard, **forms_of_page}
    return render(request, "dashboard/key.html", context)


@account_page(post=Role.MEMBER, get=False)
def change_key_access(request: HttpRequest, access: AccountAccess, key_id: int) -> HttpResponse:
    """Change what a key may do and from where."""
    found = _find_key(access, key_id)
    form = AccessForm(request.POST)
    if not form.is_valid():
        return _key_page(request, found, access_form=form)
    scope, allowed = form.cleaned_data["scope"], form.cleaned_data["addresses"]
    if keys.change_access(found, scope=scope, addresses=allowed, by=access.actor):
        messages.success(request, f"Access of key {found} changed. It applies to the next request.")
    return redirect("key", access.account.name, found.pk)


@account_page(post=Role.MEMBER, get=False)
def revoke_key(request: HttpRequest, access: AccountAccess, key_id: int) -> HttpResponse:
    found = _find_key(access, key_id)
    keys.revoke(found, by=access.actor)
    messages.success(request, f"Key {found} revoked.")
    return redirect("client", access.account.name, found.client_id)


def find_client(access: AccountAccess, client_id: int) -> Client:
    """Return one of the account's clients. Raises Http404."""
    return get_object_or_404(Client, pk=client_id, account=access.account)


def _find_key(access: AccountAccess, key_id: int) -> ApiKey:
    """Return a key of one of the account's clients, with its client. Raises Http404."""
    return get_object_or_404(
        keys.with_access(ApiKey.objects.select_related("client", "created_by")),
        pk=key_id,
        client__account=access.account,
    )
