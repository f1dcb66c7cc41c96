"""The list of a user's sessions, and the removal of expired ones."""

import re

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.test import Client as HttpClient
from django.utils import timezone

from dashboard.tasks import forget_sessions
from tests.dashboard.signing_in import is_logged_in, log_in, make_user, sign_up

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fast_hasher")]


def log_in_twice() -> tuple[HttpClient, HttpClient]:
    """Return two browsers in which one user is logged in."""
    user = make_user()
    here, there = HttpClient(), HttpClient(headers={"user-agent": "Elsewhere/1.0"})
    for http in (here, there):
        log_in(http, user.email)
    return here, there


def test_sessions_are_listed_and_ended() -> None:
    here, there = log_in_twice()
    page = here.get("/accounts/sessions/").content.decode()
    assert "Elsewhere/1.0" in page
    (session,) = re.findall(r'name="session" value="(\d+)"', page)
    here.post("/accounts/sessions/", {"session": session})
    assert not is_logged_in(there)
    assert is_logged_in(here)


@pytest.mark.parametrize("session", ["", "x", "9" * 30, str(2**40)])
def test_an_unknown_session_id_ends_nothing(session: str) -> None:
    here, there = log_in_twice()
    here.post("/accounts/sessions/", {"session": session})
    assert is_logged_in(there)


def test_sessions_of_another_user_are_not_ended() -> None:
    own_browser, other_browser = HttpClient(), HttpClient()
    sign_up(own_browser, "jane@example.org")
    sign_up(other_browser, "john@example.org")
    for session in (*UserSession.objects.values_list("pk", flat=True), "others"):
        own_browser.post("/accounts/sessions/", {"session": str(session)})
    assert is_logged_in(own_browser)
    assert is_logged_in(other_browser)


def test_expired_sessions_are_deleted() -> None:
    here, there = log_in_twice()
    Session.objects.filter(pk=there.session.session_key).update(expire_date=timezone.now())
    forget_sessions()
    assert list(Session.objects.values_list("pk", flat=True)) == [here.session.session_key]
    assert list(UserSession.objects.values_list("session_key", flat=True)) == [here.session.session_key]
