"""The list of a user's sessions, and the removal of expired ones."""

import re
from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.test import Client as HttpClient
from django.utils import timezone

from dashboard.account.browsers import browser_in
from dashboard.tasks import forget_sessions
from tests.dashboard.browsing import text_of
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


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36",
            "Chrome on Linux",
        ),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/130.0 Safari/537.36 Edg/130.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18.0 Safari/604.1",
            "Safari on iPhone",
        ),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 14.7; rv:132.0) Gecko/20100101 Firefox/132.0", "Firefox on macOS"),
        (
            "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/130.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        ("Firefox/1", "Firefox"),
        ("curl/8.9", "curl/8.9"),
        ("x" * 10_000, "x" * 60),
        ("", "Unknown browser"),
        ("   ", "Unknown browser"),
    ],
    ids=lambda text: text[:12],
)
def test_a_browser_has_a_name(user_agent: str, name: str) -> None:
    assert browser_in(user_agent) == name


def test_a_hostile_user_agent_is_escaped() -> None:
    user = make_user()
    http = HttpClient(headers={"user-agent": "<script>\N{RIGHT-TO-LEFT OVERRIDE}" + "x" * 5_000})
    log_in(http, user.email)
    page = http.get("/accounts/sessions/").content.decode()
    assert "<bdi>&lt;script&gt;" in page
    assert "x" * 60 not in page


def test_a_page_of_an_account_records_when_the_session_was_last_used() -> None:
    here, there = log_in_twice()
    long_ago = timezone.now() - timedelta(days=2)
    UserSession.objects.update(last_seen_at=long_ago)
    assert here.get("/dashboard/", follow=True).status_code == 200
    page = text_of(there.get("/accounts/sessions/"))
    assert "just now" in page
    seen = dict(UserSession.objects.values_list("session_key", "last_seen_at"))
    assert seen[there.session.session_key or ""] == long_ago
    assert seen[here.session.session_key or ""] > long_ago + timedelta(days=1)


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
