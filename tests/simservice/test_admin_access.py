"""The admin requires two-factor authentication."""

from typing import Any

import pytest
from allauth.mfa.totp.internal import auth as totp
from django.contrib.auth.models import User
from django.test import Client as HttpClient
from pytest_django import Settings

from tests.dashboard.browsing import text_of
from tests.dashboard.signing_in import PASSWORD, code_of, log_in
from tests.routes import ADMIN, address, admin_browser, logged_in_operator

__all__ = ["admin_browser", "logged_in_operator"]
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _require_mfa(settings: Settings) -> None:
    settings.ADMIN_REQUIRES_MFA = True


@pytest.fixture
def operator() -> User:
    return User.objects.create_superuser("operator", password=PASSWORD)


def set_up_factor(user: User) -> str:
    """Set up an authenticator app for a user and return its secret."""
    secret: str = totp.generate_totp_secret()
    totp.TOTP.activate(user, secret)
    return secret


def log_in_with_factor(user: User) -> HttpClient:
    """Return a browser in which a user is logged in with password and code."""
    secret, browser = set_up_factor(user), HttpClient()
    log_in(browser, user.username)
    response = browser.post("/accounts/2fa/authenticate/", {"code": code_of(secret)})
    assert response.headers["Location"] == "/dashboard/"
    return browser


def paths() -> list[str]:
    """Return a path for every route of the admin."""
    return [address(route.replace("(?P<url>.*)", "nowhere")) for route in ADMIN if route != "admin/login/"]


@pytest.mark.parametrize("path", paths())
def test_every_admin_page_requires_two_factors(path: str, admin_browser: HttpClient) -> None:
    for method in ("get", "post"):
        refused = getattr(admin_browser, method)(path)
        way = "/admin/" if path == "/admin/logout/" else "/admin/login/"
        assert (refused.status_code, refused.headers["Location"].split("?")[0]) == (302, way)


@pytest.mark.parametrize("method", ["get", "post"])
def test_staff_without_a_factor_are_redirected_to_set_it_up(method: str, operator: User) -> None:
    browser = HttpClient()
    browser.force_login(operator)
    response: Any = getattr(browser, method)("/admin/login/?next=/admin/jobs/job/")
    assert response.headers["Location"] == "/accounts/2fa/totp/activate/"
    page = browser.get("/accounts/2fa/totp/activate/", follow=True)
    assert "The admin requires two-factor authentication. Set it up" in text_of(page)


def test_staff_with_a_factor_can_use_the_admin(operator: User) -> None:
    assert log_in_with_factor(operator).get("/admin/").status_code == 200


def test_a_session_older_than_the_factor_must_enter_a_code(operator: User) -> None:
    browser = HttpClient()
    log_in(browser, "operator")
    secret = set_up_factor(operator)
    location = browser.get("/admin/login/?next=/admin/jobs/job/").headers["Location"]
    assert location == "/accounts/2fa/reauthenticate/?next=%2Fadmin%2Fjobs%2Fjob%2F"
    assert "Enter a code to continue" in text_of(browser.get(location))
    assert browser.post(location, {"code": code_of(secret)}).headers["Location"] == "/admin/jobs/job/"
    assert browser.get("/admin/jobs/job/").status_code == 200


def test_removing_the_factor_closes_the_admin(operator: User) -> None:
    browser = log_in_with_factor(operator)
    operator.authenticator_set.all().delete()  # type: ignore[attr-defined]
    assert browser.get("/admin/").status_code == 302


def test_the_next_page_is_always_on_this_site(operator: User) -> None:
    set_up_factor(operator)
    browser = HttpClient()
    browser.force_login(operator)
    location = browser.get("/admin/login/?next=https://example.org/").headers["Location"]
    assert location == "/accounts/2fa/reauthenticate/?next=%2Fadmin%2F"


def test_users_who_are_not_staff_are_denied(settings: Settings) -> None:
    browser = log_in_with_factor(User.objects.create_user("jane", password=PASSWORD))
    assert browser.get("/admin/login/").status_code == 403


def test_a_deployment_can_turn_the_requirement_off(operator: User, settings: Settings) -> None:
    settings.ADMIN_REQUIRES_MFA = False
    browser = HttpClient()
    browser.force_login(operator)
    assert browser.get("/admin/").status_code == 200
