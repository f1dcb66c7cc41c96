"""Access to the pages of an account, below `/dashboard/<account>/`.

Users who are not members get 404, as for an account that does not exist. Members whose role is too low get 403.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404

from billing.models import Account
from clients import audit, members
from clients.audit import Actor
from clients.members import Role
from clients.models import Membership
from simservice.telemetry.logs import add_log_ids

P = ParamSpec("P")
PageView = Callable[Concatenate[HttpRequest, "AccountAccess", P], HttpResponseBase]


@dataclass
class AccountAccess:
    """The account of a request and the user's membership in it."""

    membership: Membership
    request: HttpRequest

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
            found = Membership.objects.select_related("account__plan")
            membership = get_object_or_404(found, user=request.user, account__name=account)
            membership.user = request.user
            add_log_ids(account_id=membership.account_id)
            access = AccountAccess(membership, request)
            cast(Any, request).access = access
            if request.method not in methods:
                return HttpResponseNotAllowed(methods)
            least = post if request.method == "POST" and post else read
            if not members.ranks_at_least(access.membership.role, least):
                raise PermissionDenied
            return view(request, access, *args, **kwargs)

        return wrapped

    return decorate
