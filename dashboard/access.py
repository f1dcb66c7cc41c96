"""Access to the pages of an account, below `/dashboard/<account>/`.

Users who are not members get 404, as for an account that does not exist. Members whose role is too low get 403.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils import timezone

from billing.models import Account
from clients import audit, members
from clients.audit import Actor
from clients.members import Role
from clients.models import Membership
from simservice.telemetry.logs import add_log_ids

P = ParamSpec("P")
ACTIVITY_STEP = timedelta(minutes=1)
PageView = Callable[Concatenate[HttpRequest, "AccountAccess", P], HttpResponseBase]


@dataclass
class AccountAccess:
    """The account of a request, the user's membership in it, and the first `members.MAX_LISTED` of the user's."""

    membership: Membership
    request: HttpRequest
    memberships: list[Membership]

    @property
    def user(self) -> User:
        return self.membership.user

    @property
    def account(self) -> Account:
        return self.membership.account

    @property
    def may_change(self) -> bool:
        """Return whether the user can submit and cancel jobs, and create keys and webhooks."""
        return members.ranks_at_least(self.membership.role, Role.MEMBER)

    @property
    def may_manage(self) -> bool:
        """Return whether the user can manage members and read the audit log."""
        return members.ranks_at_least(self.membership.role, Role.OWNER)

    @property
    def actor(self) -> Actor:
        """Return the user as an actor of the audit log."""
        return audit.member(self.user, self.request)


def _record_activity(request: HttpRequest) -> None:
    """Record when the session was last used, with a resolution of `ACTIVITY_STEP`."""
    now = timezone.now()
    session = UserSession.objects.filter(session_key=request.session.session_key)
    session.filter(last_seen_at__lt=now - ACTIVITY_STEP).update(last_seen_at=now)


def account_page(
    *, post: Role | None = None, get: bool = True, read: Role = Role.VIEWER
) -> Callable[[PageView[P]], Callable[..., HttpResponseBase]]:
    """Turn a view `(request, access, …)` into a page of the account in its URL.

    GET requires the role `read` or higher, and is not allowed if `get` is False. POST requires the role `post` or
    higher, and is not allowed if it is None.
    """
    methods = (["GET", "HEAD"] if get else []) + (["POST"] if post else [])

    def decorate(view: PageView[P]) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def wrapped(request: HttpRequest, account: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                # An htmx request reloads the whole page, which then redirects.
                if "HX-Request" in request.headers:
                    return HttpResponse(headers={"HX-Refresh": "true"})
                return redirect_to_login(request.get_full_path())
            mine = members.memberships_of(request.user).select_related("account__plan")
            # The bar lists them, so the page's own membership takes no query of its own.
            listed = list(mine[: members.MAX_LISTED])
            found = next((one for one in listed if one.account.name == account), None)
            membership = found or get_object_or_404(mine, account__name=account)
            membership.user = request.user
            add_log_ids(account_id=membership.account_id)
            if "HX-Request" not in request.headers:
                _record_activity(request)
            access = AccountAccess(membership, request, listed)
            cast(Any, request).access = access
            if request.method not in methods:
                return HttpResponseNotAllowed(methods)
            least = post if request.method == "POST" and post else read
            if not members.ranks_at_least(access.membership.role, least):
                raise PermissionDenied
            return view(request, access, *args, **kwargs)

        return wrapped

    return decorate
