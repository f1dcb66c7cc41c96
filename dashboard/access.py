"""Who may see a page of an account, and who may change something on it.

The pages lie below `/dashboard/<account>/`. To somebody who is not a member an account does not exist; a member
whose role is too low is told so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, cast

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase

from billing.models import Account
from clients import audit, members
from clients.audit import Actor
from clients.members import Role
from clients.models import Membership

MOST_IN_A_MENU = 50
P = ParamSpec("P")
PageView = Callable[Concatenate[HttpRequest, "Place", P], HttpResponseBase]


@dataclass
class Place:
    """Where a request is and as whom: a user's membership in an account."""

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
        """Tell whether the user may do more than look: submit, cancel, make keys."""
        return members.ranks_at_least(self.membership.role, Role.MEMBER)

    @property
    def may_manage(self) -> bool:
        """Tell whether the user decides who belongs to the account."""
        return members.ranks_at_least(self.membership.role, Role.OWNER)

    @property
    def actor(self) -> Actor:
        """The user, as the audit log names them."""
        return audit.member(self.user, self.request)

    @cached_property
    def memberships(self) -> list[Membership]:
        """The user's accounts, as many as a menu can show. One query, when a template asks."""
        return list(members.memberships_of(self.user)[:MOST_IN_A_MENU])


def account_page(
    *, post: Role | None = None, get: bool = True, read: Role = Role.VIEWER
) -> Callable[[PageView[P]], Callable[..., HttpResponseBase]]:
    """Make a view `(request, place, …)` a page of the account that its path names.

    GET requires at least the role `read`, and is not allowed if `get` is False. POST requires at least the role
    `post`, and is not allowed if that is None. Costs one query besides those for session and user.
    """
    methods = (["GET", "HEAD"] if get else []) + (["POST"] if post else [])

    def decorate(view: PageView[P]) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def wrapped(request: HttpRequest, account: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return ask_to_log_in(request)
            place = find_place(request, request.user, account)
            cast(Any, request).place = place
            if request.method not in methods:
                return HttpResponseNotAllowed(methods)
            least = post if request.method == "POST" and post else read
            if not members.ranks_at_least(place.membership.role, least):
                raise PermissionDenied
            return view(request, place, *args, **kwargs)

        return wrapped

    return decorate


def ask_to_log_in(request: HttpRequest) -> HttpResponse:
    """Lead to the login; a part of a page that refreshes itself has the whole page do so."""
    if "HX-Request" in request.headers:
        return HttpResponse(headers={"HX-Refresh": "true"})
    return redirect_to_login(request.get_full_path())


def find_place(request: HttpRequest, user: User, account: str) -> Place:
    """Return the user's place in an account. Raises Http404 alike for an unknown account and another's."""
    found = Membership.objects.select_related("account__plan").filter(user=user, account__name=account).first()
    if found is None:
        raise Http404
    found.user = user
    return Place(found, request)
