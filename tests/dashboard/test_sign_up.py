"""Sign-up with a mailed link."""

import re
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client as HttpClient
from pytest_django import Settings

from clients.models import Membership
from dashboard.login import sign_up as sign_up_module
from tests.concurrency import at_once
from tests.dashboard.browsing import text_of
from tests.dashboard.mailing import link_in, write_mails
from tests.dashboard.signing_in import NEW_PASSWORD, PASSWORD, is_logged_in, request_sign_up, sign_up

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fast_hasher")]
EMAIL = "jane@example.org"


@pytest.fixture
def other() -> User:
    """A user with another address."""
    return User.objects.create_user("john", email="john@example.org", password=PASSWORD)


def sign_up_link() -> str:
    """Request to sign up and return the mailed link's path."""
    request_sign_up(HttpClient(), EMAIL)
    return link_in(mail.outbox[0])


def test_a_new_user_owns_an_account() -> None:
    http = HttpClient()
    sign_up(http, EMAIL)
    page = http.get("/dashboard/", follow=True)
    assert page.redirect_chain == [("/dashboard/jane/", 302)]
    assert "Available credits" in page.content.decode()
    membership = Membership.objects.get(user__email=EMAIL)
    assert (membership.role, membership.account.clients.get().name) == ("owner", "default")


def test_users_with_one_name_get_accounts_with_two_names() -> None:
    sign_up(HttpClient(), "jane@example.org")
    sign_up(HttpClient(), "jane@example.net")
    names = set(Membership.objects.values_list("account__name", flat=True))
    assert len(names) == 2
    assert all(re.fullmatch("jane(-[0-9a-f]{8})?", name) for name in names)


def test_sign_up_can_be_closed(settings: Settings) -> None:
    settings.ALLOW_SIGNUP = False
    assert "Sign-up is closed" in request_sign_up(HttpClient()).content.decode()
    assert mail.outbox == []
    assert not User.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_submitting_the_form_twice_creates_one_user() -> None:
    statuses: list[int] = []
    link = sign_up_link()
    at_once(2, lambda: statuses.append(HttpClient().post(link, {"password1": PASSWORD}).status_code))
    assert User.objects.count() == 1
    assert Membership.objects.count() == 1
    assert set(statuses) <= {200, 302}


def test_the_link_creates_a_user_with_a_verified_address() -> None:
    link, http = sign_up_link(), HttpClient()
    assert EMAIL in http.get(link).content.decode()
    http.post(link, {"email": "other@example.org", "password1": PASSWORD})
    assert list(EmailAddress.objects.values_list("email", "verified")) == [(EMAIL, True)]
    assert is_logged_in(http)


def test_the_link_creates_a_user_only_once() -> None:
    link = sign_up_link()
    HttpClient().post(link, {"password1": PASSWORD})
    again = HttpClient().post(link, {"password1": NEW_PASSWORD}, follow=True)
    assert "You have already signed up" in text_of(again)
    assert User.objects.get().check_password(PASSWORD)


@pytest.mark.parametrize("fault", ["truncated", "forged", "expired"])
def test_an_invalid_link_is_rejected(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    link = sign_up_link()
    if fault == "expired":
        monkeypatch.setattr(sign_up_module, "VALID_FOR", timedelta(seconds=-1))
    paths = {"truncated": link[:-9] + "/", "forged": link.replace("signup/", "signup/x"), "expired": link}
    response = HttpClient().post(paths[fault], {"password1": PASSWORD})
    assert (response.status_code, "incomplete or has expired" in text_of(response)) == (404, True)
    assert not User.objects.exists()


def test_an_unverified_claim_does_not_block_the_owner(other: User) -> None:
    """Another user requested to change to the address, but never verified it."""
    EmailAddress.objects.create(user=other, email=EMAIL)
    HttpClient().post("/accounts/password/reset/", {"email": EMAIL})
    assert write_mails() == 0
    HttpClient().post(sign_up_link(), {"password1": PASSWORD})
    assert EmailAddress.objects.get(email=EMAIL).user.email == EMAIL


def test_a_verified_address_stays_with_its_user(other: User) -> None:
    EmailAddress.objects.create(user=other, email=EMAIL, verified=True)
    HttpClient().post(sign_up_link(), {"password1": PASSWORD})
    assert EmailAddress.objects.get(email=EMAIL).user == other


def test_without_mail_sign_up_is_a_single_step(settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    http, fields = HttpClient(), {"email": EMAIL, "password1": PASSWORD}
    assert http.post("/accounts/signup/", fields).headers["Location"] == "/dashboard/"
    assert not EmailAddress.objects.get().verified
    again = HttpClient().post("/accounts/signup/", fields | {"email": "Jane@Example.org"})
    assert "already" in again.content.decode()
    assert User.objects.count() == 1
