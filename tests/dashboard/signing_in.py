"""Sign-up, login and reauthentication as a browser does them."""

from typing import Any

from allauth.mfa.totp.internal import auth as totp
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client as HttpClient

from tests.dashboard.mailing import link_in, write_mails
from tests.factories import make_member

PASSWORD = "long enough, and rare"
NEW_PASSWORD = "another, rarer one"


def make_user() -> User:
    """Return a user with a password and an account."""
    user = make_member().user
    user.set_password(PASSWORD)
    user.save()
    return user


def request_sign_up(http: HttpClient, email: str = "jane@example.org", **fields: str) -> Any:
    """Submit the sign-up form, and send the mail that it enqueues."""
    response = http.post("/accounts/signup/", {"email": email, **fields})
    write_mails()
    return response


def sign_up(http: HttpClient, email: str = "jane@example.org") -> User:
    """Sign up: submit an address, open the mailed link, and choose a password. Leaves no mail."""
    request_sign_up(http, email)
    response = http.post(link_in(mail.outbox.pop()), {"password1": PASSWORD})
    assert response.headers["Location"] == "/dashboard/"
    return User.objects.get(email=email)


def log_in(http: HttpClient, login: str, password: str = PASSWORD) -> Any:
    """Submit the login form."""
    return http.post("/accounts/login/", {"login": login, "password": password})


def is_logged_in(http: HttpClient) -> bool:
    """Return whether a page that requires a login opens."""
    return http.get("/accounts/profile/").status_code == 200


def confirm_identity(http: HttpClient) -> Any:
    """Enter the password again."""
    return http.post("/accounts/reauthenticate/", {"password": PASSWORD})


def code_of(secret: str) -> str:
    """Return the code that an authenticator app shows now."""
    _, now, _ = totp.yield_hotp_counters_from_time()
    return str(totp.format_hotp_value(totp.hotp_value(secret, now)))
