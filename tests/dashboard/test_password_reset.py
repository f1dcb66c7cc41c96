"""Password reset by mail, changes of the password, and changes of the email address."""

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client as HttpClient
from pytest_django import Settings

from simservice.redis.client import redis
from tests.dashboard.mailing import link_in, write_mails
from tests.dashboard.signing_in import (
    NEW_PASSWORD,
    PASSWORD,
    confirm_identity,
    is_logged_in,
    log_in,
    sign_up,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fast_hasher")]
EMAIL, NEW_EMAIL = "jane@example.org", "jane@example.net"


@pytest.fixture
def jane() -> User:
    return User.objects.create_user("jane", email=EMAIL, password=PASSWORD)


def request_reset(email: str, address: str = "127.0.0.1") -> int:
    """Submit the form from an IP address and return the status code."""
    return HttpClient(REMOTE_ADDR=address).post("/accounts/password/reset/", {"email": email}).status_code


def test_a_password_is_reset_with_a_mailed_link(jane: User) -> None:
    request_reset(EMAIL)
    write_mails()
    http = HttpClient()
    form = http.get(link_in(mail.outbox[0]), follow=True)
    http.post(form.redirect_chain[-1][0], {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD})
    assert log_in(HttpClient(), EMAIL, NEW_PASSWORD).status_code == 302


def test_an_unknown_address_gets_no_mail() -> None:
    response = HttpClient().post("/accounts/password/reset/", {"email": "nobody@example.org"})
    assert response.headers["Location"] == "/accounts/password/reset/done/"
    assert (write_mails(), mail.outbox) == (0, [])


def test_an_inactive_user_gets_no_mail(jane: User) -> None:
    User.objects.update(is_active=False)
    request_reset(EMAIL)
    assert write_mails() == 0


def test_too_many_requests_from_one_address_are_rejected(settings: Settings) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"reset_password": "2/m/ip"}
    *_, last = [
        HttpClient().post("/accounts/password/reset/", {"email": f"{number}@example.org"}) for number in range(3)
    ]
    assert last.status_code == 429
    assert "Try again in a few minutes" in last.content.decode()


def test_requests_by_others_do_not_block_the_owner(jane: User) -> None:
    assert [request_reset(EMAIL, "192.0.2.1") for _ in range(10)] == [302] * 10
    assert request_reset(EMAIL, "192.0.2.2") == 302
    assert write_mails() == 1


def test_without_mail_the_page_says_so(settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    http = HttpClient()
    assert "does not send email" in http.get("/accounts/password/reset/").content.decode()
    done = http.post("/accounts/password/reset/", {"email": EMAIL}, follow=True)
    assert "No email was sent" in done.content.decode()
    assert redis().llen("control") == 0


def test_a_changed_password_is_mailed_and_ends_other_sessions() -> None:
    sign_up(HttpClient(), EMAIL)
    here, there = HttpClient(), HttpClient()
    for http in (here, there):
        log_in(http, EMAIL)
    fields = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    here.post("/accounts/password/change/", fields)
    assert is_logged_in(here)
    assert not is_logged_in(there)
    assert [message.to for message in mail.outbox] == [[EMAIL]]


def test_a_change_of_address_is_mailed_after_the_password() -> None:
    http = HttpClient()
    sign_up(http, EMAIL)
    change = http.post("/accounts/email/", {"email": NEW_EMAIL, "action_add": ""})
    assert http.post(change.headers["Location"], {"password": "wrong"}).status_code == 200
    assert mail.outbox == []
    http.post(change.headers["Location"], {"password": PASSWORD})
    assert [message.to for message in mail.outbox] == [[NEW_EMAIL]]


def test_a_new_address_is_verified_with_a_mailed_link(settings: Settings) -> None:
    http = HttpClient()
    sign_up(http, EMAIL)
    confirm_identity(http)
    settings.PUBLIC_BASE_URL = "https://sim.example.org"
    http.post("/accounts/email/", {"email": NEW_EMAIL, "action_add": ""})
    assert "is not verified yet" in http.get("/accounts/email/").content.decode()
    link = link_in(mail.outbox[0], base="https://sim.example.org")
    assert NEW_EMAIL in HttpClient().get(link).content.decode()
    http.post(link)
    assert list(EmailAddress.objects.values_list("email", "verified")) == [(NEW_EMAIL, True)]
