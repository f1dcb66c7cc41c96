"""People: signing up, logging in, second factors, sessions."""

import re
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth as totp
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client as HttpClient
from pytest_django import Settings

from clients.models import Membership
from tests.factories import make_member

pytestmark = pytest.mark.django_db
PASSWORD = "long enough, and rare"


def sign_up(http: HttpClient, email: str = "jane@example.org", **fields: str) -> Any:
    """Send the form for signing up."""
    return http.post("/accounts/signup/", {"email": email, "password1": PASSWORD, **fields})


def log_in(http: HttpClient, login: str, password: str = PASSWORD) -> Any:
    """Send the form for logging in."""
    return http.post("/accounts/login/", {"login": login, "password": password})


def code_of(secret: str) -> str:
    """Return what an authenticator app shows now."""
    _, now, _ = totp.yield_hotp_counters_from_time()
    return str(totp.format_hotp_value(totp.hotp_value(secret, now)))


def test_a_new_user_owns_an_account() -> None:
    http = HttpClient()
    assert sign_up(http).headers["Location"] == "/dashboard/"
    page = http.get("/dashboard/", follow=True)
    assert page.redirect_chain == [("/dashboard/jane/", 302)]
    assert "Available credits" in page.content.decode()
    place = Membership.objects.get(user__email="jane@example.org")
    assert (place.role, place.account.clients.get().name) == ("owner", "default")


def test_two_users_of_one_name_have_accounts_of_different_names() -> None:
    sign_up(HttpClient(), "jane@example.org")
    sign_up(HttpClient(), "jane@example.net")
    names = set(Membership.objects.values_list("account__name", flat=True))
    assert len(names) == 2
    assert all(re.fullmatch("jane(-[0-9a-f]{8})?", name) for name in names)


def test_an_address_signs_up_once() -> None:
    sign_up(HttpClient())
    again = sign_up(HttpClient(), "Jane@Example.org")
    assert "already" in again.content.decode()
    assert User.objects.count() == 1


def test_strangers_can_be_kept_out(settings: Settings) -> None:
    settings.ALLOW_SIGNUP = False
    assert "Sign-up is closed" in sign_up(HttpClient()).content.decode()
    assert not User.objects.exists()


def test_login_by_address_and_by_name() -> None:
    user = make_member().user
    user.set_password(PASSWORD)
    user.save()
    for name in (user.email, user.email.upper(), user.username):
        assert log_in(HttpClient(), name).headers["Location"] == "/dashboard/"
    wrong = log_in(HttpClient(), user.email, "wrong")
    assert 'role="alert"' in wrong.content.decode()


def test_a_password_is_reset_by_mail() -> None:
    sign_up(HttpClient())
    mail.outbox.clear()
    http = HttpClient()
    http.post("/accounts/password/reset/", {"email": "jane@example.org"})
    (found,) = re.findall(r"http://testserver(/\S+)", str(mail.outbox[0].body))
    form = http.get(found, follow=True)
    http.post(form.redirect_chain[-1][0], {"password1": "another, rarer one", "password2": "another, rarer one"})
    assert log_in(HttpClient(), "jane@example.org", "another, rarer one").status_code == 302


def test_a_second_factor_is_asked_for_also_on_the_way_to_the_admin() -> None:
    user = User.objects.create_superuser("operator", password=PASSWORD)
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(user, secret)
    assert secret not in str(Authenticator.objects.get().data)
    http = HttpClient()
    assert http.get("/admin/login/?next=/admin/").headers["Location"] == "/accounts/login/?next=%2Fadmin%2F"
    first = http.post("/accounts/login/?next=/admin/", {"login": "operator", "password": PASSWORD})
    assert first.headers["Location"].startswith("/accounts/2fa/authenticate/")
    assert http.get("/admin/").status_code == 302
    second = http.post("/accounts/2fa/authenticate/", {"code": code_of(secret)})
    assert second.headers["Location"] == "/admin/"
    assert http.get("/admin/").status_code == 200


def test_sessions_are_listed_and_ended() -> None:
    user = make_member().user
    user.set_password(PASSWORD)
    user.save()
    here, there = HttpClient(), HttpClient(headers={"user-agent": "Elsewhere/1.0"})
    for http in (here, there):
        log_in(http, user.email)
    page = here.get("/accounts/sessions/").content.decode()
    assert "Elsewhere/1.0" in page
    (number,) = re.findall(r'name="session" value="(\d+)"', page)
    here.post("/accounts/sessions/", {"session": number})
    assert there.get("/accounts/profile/").status_code == 302
    assert here.get("/accounts/profile/").status_code == 200
