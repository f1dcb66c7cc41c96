"""A user's own pages: how they log in, and where they are logged in."""

import re
from typing import cast

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

SHOWN = 50
ID = re.compile(r"[1-9][0-9]{0,17}")


@login_required
@require_http_methods(["GET", "HEAD"])
def profile(request: HttpRequest) -> HttpResponse:
    """Show how the user logs in, with the ways to change it."""
    user = cast(User, request.user)
    factors = Authenticator.objects.filter(user=user).values_list("type", flat=True)
    context = {"has_totp": Authenticator.Type.TOTP in set(factors), "session_count": live_sessions(user).count()}
    return render(request, "account/profile.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def sessions(request: HttpRequest) -> HttpResponse:
    """List where the user is logged in; end one of those sessions, or all but this one."""
    user, current = cast(User, request.user), request.session.session_key
    if request.method == "POST":
        others = live_sessions(user).exclude(session_key=current)
        ended = end(chosen_of(others, request.POST.get("session", "")))
        messages.success(request, f"{ended} session{'' if ended == 1 else 's'} ended.")
        return redirect("usersessions_list")
    listed = live_sessions(user).order_by("-last_seen_at")[:SHOWN]
    return render(request, "usersessions/usersession_list.html", {"sessions": listed, "current": current})


def chosen_of(sessions: QuerySet[UserSession], chosen: str) -> QuerySet[UserSession]:
    """Return the session that a form names by its number, or all of them for `others`."""
    if chosen == "others":
        return sessions
    return sessions.filter(pk=int(chosen)) if ID.fullmatch(chosen) else sessions.none()


def live_sessions(user: User) -> QuerySet[UserSession]:
    """Return the sessions of a user that still serve."""
    alive = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    found: QuerySet[UserSession] = UserSession.objects.filter(user=user, session_key__in=alive)
    return found


def end(chosen: QuerySet[UserSession]) -> int:
    """End sessions: whoever uses them must log in again. Return how many that were. Three queries."""
    keys = list(chosen.values_list("session_key", flat=True))
    Session.objects.filter(session_key__in=keys).delete()
    UserSession.objects.filter(session_key__in=keys).delete()
    return len(keys)
