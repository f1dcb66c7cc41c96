"""Export and deletion of the data of an account and of a user.

Deletions require a recent login: users enter their password or a code again.
"""

import logging
from collections.abc import Callable, Iterator
from typing import IO, cast

from allauth.account.decorators import reauthentication_required
from django import forms
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from clients import audit
from clients.accounts import set_shares_inputs
from clients.members import Role
from dashboard.access import AccountAccess, account_page
from dashboard.forms import form_data
from privacy import accounts, exports, users
from privacy.errors import DeletionStarted, ExportPending, OnlyOwner, StaffUser
from privacy.models import Export
from simservice.api.errors import StorageUnavailable
from simservice.web.error_pages import render_error

logger = logging.getLogger(__name__)

LISTED = 20
CHUNK_BYTES = 64 * 1024


class NameForm(forms.Form):
    """A form that requires the name of what is deleted."""

    name = forms.CharField(max_length=254)

    def __init__(self, data: QueryDict | None, *, expected: str, label: str) -> None:
        super().__init__(data)
        self.expected = expected
        self.fields["name"].label = label
        self.fields["name"].widget.attrs["autocomplete"] = "off"

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if name != self.expected:
            raise forms.ValidationError(f"Enter {self.expected}.")
        return name


@account_page(read=Role.OWNER, post=Role.OWNER)
def account_data(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """List the account's exports; on POST, request one."""
    if request.method == "POST":
        _request_export(request, lambda: exports.request_account_export(access.account, by=access.actor))
        return redirect("account_data", access.account.name)
    context = {
        "section": "account_data",
        "exports": exports.of_account(access.account)[:LISTED],
        "days": exports.KEPT.days,
        "deletion": accounts.of(access.account),
        "grace_days": accounts.GRACE.days,
    }
    return render(request, "dashboard/data.html", context)


def _request_export(request: HttpRequest, ask: Callable[[], Export]) -> None:
    try:
        ask()
    except ExportPending:
        messages.info(request, "An export is being built. When it is ready, it is listed here.")
    else:
        messages.success(request, "Export requested. When it is ready, it is listed here.")


@account_page(read=Role.OWNER)
def account_export(request: HttpRequest, access: AccountAccess, export_id: int) -> HttpResponseBase:
    """Download an export of the account. Raises Http404 if it is not available."""
    return _download(request, exports.of_account(access.account), export_id, name=f"{access.account}-export.zip")


@account_page(read=Role.OWNER, post=Role.OWNER)
@reauthentication_required(app="account")  # type: ignore[untyped-decorator]
def delete_account(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Ask for confirmation, then start the deletion of the account."""
    form = NameForm(form_data(request), expected=access.account.name, label="Name of the account")
    if form.is_valid():
        deletion = accounts.request(access.account, by=access.actor)
        messages.success(request, f"This account will be deleted on {deletion.due_at:%Y-%m-%d %H:%M} UTC.")
        return redirect("account_data", access.account.name)
    context = {"section": "account_data", "form": form, "grace_days": accounts.GRACE.days}
    return render(request, "dashboard/delete_account.html", context)


@account_page(post=Role.OWNER, get=False)
def account_sharing(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Choose whether share links show profiles and logs."""
    shown = request.POST.get("shares_inputs") == "on"
    set_shares_inputs(access.account, shown=shown, by=access.actor)
    messages.success(request, f"Share links {'now' if shown else 'no longer'} show profiles and logs.")
    return redirect("account_data", access.account.name)


@account_page(post=Role.OWNER, get=False)
def keep_account(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Undo the deletion of the account."""
    try:
        if accounts.undo(access.account, by=access.actor):
            messages.success(request, "The deletion was undone. Create new keys and enable webhooks again.")
    except DeletionStarted:
        messages.error(request, "The data is being deleted. This cannot be undone.")
    return redirect("account_data", access.account.name)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def user_data(request: HttpRequest) -> HttpResponse:
    """List the exports of the user's own data; on POST, request one."""
    user = cast(User, request.user)
    if request.method == "POST":
        _request_export(request, lambda: exports.request_user_export(user))
        return redirect("user_data")
    context = {"exports": exports.of_user(user)[:LISTED], "days": exports.KEPT.days}
    return render(request, "account/data.html", context)


@login_required
@require_http_methods(["GET", "HEAD"])
def user_export(request: HttpRequest, export_id: int) -> HttpResponseBase:
    """Download an export of the user's own data. Raises Http404 if it is not available."""
    return _download(request, exports.of_user(cast(User, request.user)), export_id, name="my-data.zip")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@reauthentication_required(app="account")  # type: ignore[untyped-decorator]
def delete_user(request: HttpRequest) -> HttpResponse:
    """Ask for confirmation, then delete the user."""
    user = cast(User, request.user)
    form = NameForm(form_data(request), expected=audit.name_of(user), label="Your email address or username")
    if form.is_valid():
        try:
            users.delete(user, by=audit.member(user, request))
        except (OnlyOwner, StaffUser, ExportPending, OSError) as error:
            form.add_error(None, _reason(error))
        else:
            logout(request)
            messages.success(request, "Your login and your data were deleted.")
            return redirect("home")
    context = {"form": form, "owned": users.accounts_owned_alone(user)}
    return render(request, "account/delete.html", context)


def _reason(error: Exception) -> str:
    if isinstance(error, OnlyOwner):
        return f"You are the only owner of {', '.join(error.accounts)}. Delete or hand over these accounts first."
    if isinstance(error, StaffUser):
        return "Operators cannot delete their own login. Ask another operator to remove your staff status first."
    if isinstance(error, ExportPending):
        return "An export is being built. Try again in a few minutes."
    return "Storage is not responding. Try again later."


def _download(request: HttpRequest, found: QuerySet[Export], export_id: int, *, name: str) -> HttpResponseBase:
    """Return the file of an export. Raises Http404 if it is not available."""
    export = exports.available(found).filter(pk=export_id).first()
    if export is None:
        raise Http404
    try:
        stored = exports.open_file(export)
    except FileNotFoundError:
        raise Http404 from None
    except OSError:
        logger.warning("export %s: storage is unavailable", export.pk, exc_info=True)
        return render_error(request, StorageUnavailable())
    response = StreamingHttpResponse(_chunks(stored), content_type="application/zip")
    response["Content-Length"] = str(export.bytes)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _chunks(stored: IO[bytes]) -> Iterator[bytes]:
    with stored:
        yield from iter(lambda: stored.read(CHUNK_BYTES), b"")
