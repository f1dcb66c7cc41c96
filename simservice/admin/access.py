"""Two-factor authentication for the admin, unless ADMIN_REQUIRES_MFA is off."""

from typing import Any

from allauth.account.decorators import secure_admin_login
from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.utils import get_next_redirect_url
from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

SET_UP_MESSAGE = "The admin requires two-factor authentication. Set it up, then open the admin again."
ENTER_CODE_MESSAGE = "The admin requires two-factor authentication. Enter a code to continue."


def require_two_factor(site: AdminSite) -> None:
    """Make an admin site use this service's login page and require two-factor authentication on every page."""
    is_staff, show_login = site.has_permission, site.login

    def has_permission(request: HttpRequest) -> bool:
        return is_staff(request) and not _lacks_second_factor(request)

    def login(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:
        if is_staff(request) and _lacks_second_factor(request):
            return _redirect_to_second_factor(request)
        return show_login(request, extra_context)

    site.has_permission = has_permission  # type: ignore[method-assign]
    site.login = secure_admin_login(login)  # type: ignore[method-assign]


def _lacks_second_factor(request: HttpRequest) -> bool:
    """Return whether the user has no second factor or did not use it in this session.

    A session that is older than the second factor may be an attacker's.
    """
    if not settings.ADMIN_REQUIRES_MFA:
        return False
    records = get_authentication_records(request, request.user)
    return not any(record["method"] == "mfa" for record in records) or not is_mfa_enabled(request.user)


def _redirect_to_second_factor(request: HttpRequest) -> HttpResponseRedirect:
    if not is_mfa_enabled(request.user):
        messages.info(request, SET_UP_MESSAGE)
        return redirect("mfa_activate_totp")
    messages.info(request, ENTER_CODE_MESSAGE)
    next_page = get_next_redirect_url(request) or reverse("admin:index")
    return redirect(f"{reverse('mfa_reauthenticate')}?{urlencode({'next': next_page})}")
