"""Login by username or email address, its rate limits, and pages that require a login."""

from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from dashboard.login import backends
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.mailing import write_mails
from tests.dashboard.signing_in import PASSWORD, is_logged_in, log_in, make_user
from tests.factories import make_member

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fast_hasher")]
EMAIL, UNKNOWN = "jane@example.org", "nobody@example.org"
RATE_LIMITED = "Too many failed login attempts"


@pytest.fixture
def jane() -> User:
    """A user with a verified address."""
    user = User.objects.create_user("jane", email=EMAIL, password=PASSWORD)
    EmailAddress.objects.create(user=user, email=EMAIL, verified=True, primary=True)
    return user


def browser_at(address: str) -> HttpClient:
    """Return a browser with an IP address."""
    return HttpClient(REMOTE_ADDR=address)


def test_login_accepts_address_and_username() -> None:
    user = make_user()
    for login in (user.email, user.email.upper(), user.username):
        assert log_in(HttpClient(), login).headers["Location"] == "/dashboard/"
    assert 'role="alert"' in log_in(HttpClient(), user.email, "wrong").content.decode()


def test_shared_address_belongs_to_its_verified_user(jane: User) -> None:
    twin = User.objects.create_user("twin", email=EMAIL, password="another")
    assert log_in(HttpClient(), EMAIL).status_code == 302
    EmailAddress.objects.filter(user=jane).update(user=twin)
    assert log_in(HttpClient(), EMAIL, "another").status_code == 302
    assert log_in(HttpClient(), EMAIL).status_code == 200
    assert log_in(HttpClient(), "jane").status_code == 302


def test_exact_username_takes_precedence(jane: User) -> None:
    User.objects.create_user("Jane", password="another")
    assert log_in(HttpClient(), "Jane", "another").status_code == 302
    assert log_in(HttpClient(), "jane").status_code == 302


def test_username_takes_precedence_over_address(jane: User) -> None:
    User.objects.create_user(EMAIL, password="another")
    assert log_in(HttpClient(), EMAIL, "another").status_code == 302
    assert log_in(HttpClient(), EMAIL, PASSWORD).status_code == 200


def test_letters_that_look_alike_do_not_match(jane: User) -> None:
    """Most databases match a dotless i with an i; the test's database does so after the change of collation."""
    with connection.cursor() as cursor:
        for column in ("username", "email"):
            cursor.execute(f'ALTER TABLE auth_user ALTER {column} TYPE varchar(254) COLLATE "pg_c_utf8"')
    User.objects.filter(pk=jane.pk).update(username="m\u0131ke", email="m\u0131ke@example.org")
    assert User.objects.filter(username__iexact="mike", email__iexact="mike@example.org").exists()
    for login in ("mike", "mike@example.org"):
        assert log_in(HttpClient(), login).status_code == 200
    HttpClient().post("/accounts/password/reset/", {"email": "mike@example.org"})
    assert write_mails() == 0


def test_users_are_found_by_an_index() -> None:
    with CaptureQueriesContext(connection) as queries:
        backends.find_user(UNKNOWN)
        backends.users_with(UNKNOWN)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for query in queries.captured_queries:
            cursor.execute(f"EXPLAIN {query['sql']}")
            assert "Seq Scan on auth_user" not in str(cursor.fetchall())


def test_login_redirects_to_the_requested_page() -> None:
    owner = make_member()
    owner.user.set_password(PASSWORD)
    owner.user.save()
    http, path = HttpClient(), f"/dashboard/{owner.account}/credits"
    login = http.get(path).headers["Location"]
    assert login == f"/accounts/login/?next={path}"
    fields = {"login": owner.user.email, "password": PASSWORD}
    assert http.post(login, fields).headers["Location"] == path
    elsewhere = HttpClient().post("/accounts/login/?next=https://example.org/", fields)
    assert elsewhere.headers["Location"] == "/dashboard/"


def test_expired_session_redirects_to_the_login() -> None:
    owner = make_member()
    http = browser_of(owner)
    Session.objects.all().delete()
    response = http.post(f"/dashboard/{owner.account}/clients", {"name": "bot"})
    assert response.headers["Location"] == f"/accounts/login/?next=/dashboard/{owner.account}/clients"
    assert not owner.account.clients.filter(name="bot").exists()


def test_form_of_another_session_shows_that_it_expired() -> None:
    response = HttpClient(enforce_csrf_checks=True).post("/accounts/login/", {"login": "x", "password": "x"})
    assert (response.status_code, "form has expired" in response.content.decode()) == (403, True)


def test_suspended_account_shows_a_notice() -> None:
    owner = make_member()
    owner.account.suspended_at = timezone.now()
    owner.account.save()
    assert "is suspended" in browser_of(owner).get(f"/dashboard/{owner.account}/").content.decode()


def test_denied_change_names_the_role() -> None:
    viewer = make_member(role="viewer")
    http = browser_of(viewer)
    response = http.post(f"/dashboard/{viewer.account}/clients", {"name": "bot"})
    assert (response.status_code, "is viewer" in response.content.decode()) == (403, True)
    assert http.get("/admin/login/").status_code == 403


def test_failed_logins_are_limited_only_while_redis_runs(settings: Settings) -> None:
    user = make_user()
    for _ in range(5):
        assert log_in(HttpClient(), user.email, "wrong").status_code == 200
    assert RATE_LIMITED in log_in(HttpClient(), user.email).content.decode()
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1"}}
    assert log_in(HttpClient(), user.email).status_code == 302


def test_guesses_from_another_address_lock_nobody_out(jane: User) -> None:
    for number in range(6):
        response = log_in(browser_at("192.0.2.1"), EMAIL.upper() if number % 2 else EMAIL, "wrong")
    assert RATE_LIMITED in text_of(response)
    assert RATE_LIMITED in text_of(log_in(browser_at("192.0.2.1"), EMAIL))
    assert log_in(browser_at("192.0.2.2"), EMAIL).status_code == 302


def test_one_address_can_try_ten_logins_a_minute() -> None:
    responses = [log_in(browser_at("192.0.2.1"), f"{number}@example.org", "wrong") for number in range(11)]
    assert [RATE_LIMITED in text_of(response) for response in responses] == [False] * 10 + [True]


def test_limits_behind_a_proxy_count_by_caller(jane: User, settings: Settings) -> None:
    settings.TRUSTED_PROXIES = 1

    def guess(forwarded: str, password: str) -> Any:
        return log_in(HttpClient(headers={"x-forwarded-for": forwarded}), EMAIL, password)

    for number in range(6):
        response = guess(f"198.51.100.{number}, 192.0.2.1", "wrong")
    assert RATE_LIMITED in text_of(response)
    assert guess("192.0.2.1, 192.0.2.2", PASSWORD).status_code == 302


@pytest.mark.parametrize("forwarded", ["", "192.0.2.1", "unknown, unknown", "192.0.2.1:80, 192.0.2.2:80", ","])
def test_malformed_forwarded_headers_are_limited_too(forwarded: str, jane: User, settings: Settings) -> None:
    settings.TRUSTED_PROXIES = 2
    http = HttpClient(headers={"x-forwarded-for": forwarded})
    for _ in range(6):
        response = log_in(http, EMAIL, "wrong")
    assert RATE_LIMITED in text_of(response)
    cache.clear()
    log_in(http, EMAIL)
    assert is_logged_in(http)
