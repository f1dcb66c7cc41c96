"""A user's own pages: login settings and sessions."""

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

from dashboard.account.browsers import browser_in

PAGE_SIZE = 50
SESSION_ID = re.compile(r"[1-9][0-9]{0,17}")


@login_required
@require_http_methods(["GET", "HEAD"])
def profile(request: HttpRequest) -> HttpResponse:
    """Show the user's login settings, with links to change them."""
    user = cast(User, request.user)
    factors = Authenticator.objects.filter(user=user).values_list("type", flat=True)
    context = {"has_totp": Authenticator.Type.TOTP in set(factors), "session_count": _active_sessions(user).count()}
    return render(request, "account/profile.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def sessions(request: HttpRequest) -> HttpResponse:
    """List the user's sessions; on POST, end one of them, or all but this one."""
    user, current = cast(User, request.user), request.session.session_key
    if request.method == "POST":
        chosen, choice = _active_sessions(user).exclude(session_key=current), request.POST.get("session", "")
        if choice != "others":
            chosen = chosen.filter(pk=int(choice)) if SESSION_ID.fullmatch(choice) else chosen.none()
        # This logs their browsers out.
        keys = list(chosen.values_list("session_key", flat=True))
        Session.objects.filter(session_key__in=keys).delete()
        UserSession.objects.filter(session_key__in=keys).delete()
        messages.success(request, f"{len(keys)} session{'' if len(keys) == 1 else 's'} ended.")
        return redirect("usersessions_list")
    listed = _active_sessions(user).order_by("-last_seen_at")[:PAGE_SIZE]
    rows = [{"session": session, "browser": browser_in(session.user_agent)} for session in listed]
    return render(request, "usersessions/usersession_list.html", {"rows": rows, "current": current})


def _active_sessions(user: User) -> QuerySet[UserSession]:
    active = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    sessions: QuerySet[UserSession] = UserSession.objects.filter(user=user, session_key__in=active)
    return sessions
