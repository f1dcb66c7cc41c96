"""The way into an account's pages, and the first of them."""

from typing import cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from billing import ledger
from clients import accounts, members
from dashboard.access import Place, account_page


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def choose(request: HttpRequest) -> HttpResponse:
    """Lead to the user's first account; whoever has none may open one, if strangers may."""
    user = cast(User, request.user)
    if request.method == "POST" and settings.ALLOW_SIGNUP:
        account = accounts.open_own_account(user)
        messages.success(request, f"Your account is called {account}.")
        return redirect("overview", account.name)
    first = members.memberships_of(user).first()
    if first is not None:
        return redirect("overview", first.account.name)
    return render(request, "dashboard/no_account.html", {"may_open": settings.ALLOW_SIGNUP})


@account_page()
def overview(request: HttpRequest, place: Place) -> HttpResponse:
    """Show how the account stands."""
    context = {"section": "overview", "balances": ledger.balances(place.account)}
    return render(request, "dashboard/overview.html", context)
