"""Login, sign-up and password reset do not reveal which email addresses are known."""

from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from django.core import mail
from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from clients.models import Membership
from tests.dashboard.browsing import text_of
from tests.dashboard.mailing import take_tasks
from tests.dashboard.signing_in import PASSWORD, confirm_identity, log_in, make_user, request_sign_up

pytestmark = pytest.mark.django_db
KNOWN, UNKNOWN = "jane@example.org", "nobody@example.org"


class CountingHasher(PBKDF2PasswordHasher):
    """Counts how many passwords are hashed."""

    iterations = 1
    count = 0

    def encode(self, *args: Any, **kwargs: Any) -> str:
        CountingHasher.count += 1
        return super().encode(*args, **kwargs)


@pytest.fixture(autouse=True)
def _count_hashes(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = [f"{__name__}.{CountingHasher.__name__}"]


@pytest.fixture
def jane() -> User:
    """A user with a verified address."""
    user = User.objects.create_user("jane", email=KNOWN, password=PASSWORD)
    EmailAddress.objects.create(user=user, email=KNOWN, verified=True, primary=True)
    return user


def footprint(http: HttpClient, path: str, fields: dict[str, str]) -> tuple[Any, ...]:
    """Return everything a stranger could measure: hashes, queries, sent and enqueued mail, and the response."""
    CountingHasher.count = 0
    with CaptureQueriesContext(connection) as queries:
        response = http.post(path, fields)
    text = text_of(response).replace(KNOWN, "X").replace(UNKNOWN, "X")
    enqueued = [task for task, _ in take_tasks()]
    headers = {name for name in response.headers if name != "X-Request-Id"}
    page = (response.status_code, response.headers.get("Location"), text, headers)
    return CountingHasher.count, len(queries), len(mail.outbox), enqueued, page


FORMS = {
    "login": ("/accounts/login/", "login", {"password": "wrong"}),
    "sign-up": ("/accounts/signup/", "email", {}),
    "sign-up with a password": ("/accounts/signup/", "email", {"password1": PASSWORD}),
    "reset": ("/accounts/password/reset/", "email", {}),
}


@pytest.mark.parametrize(("path", "field", "others"), FORMS.values(), ids=FORMS)
def test_known_and_unknown_addresses_look_the_same(
    path: str, field: str, others: dict[str, str], jane: User
) -> None:
    known, unknown, upper = (
        footprint(HttpClient(), path, {field: email, **others}) for email in (KNOWN, UNKNOWN, KNOWN.upper())
    )
    assert known == unknown == upper
    assert known[2] == 0


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"username": KNOWN},
        {"is_active": False},
        {"password": "!unusable"},
        {"email": "", "username": KNOWN},
    ],
    ids=["usual", "username is the address", "inactive", "no password", "no address"],
)
def test_every_login_attempt_hashes_one_password(change: dict[str, Any], jane: User) -> None:
    User.objects.filter(pk=jane.pk).update(**change)
    User.objects.create_user("twin", email=KNOWN, password="another")
    for login in (KNOWN, "jane", UNKNOWN, "nobody"):
        CountingHasher.count = 0
        assert log_in(HttpClient(), login, "wrong").status_code == 200
        assert CountingHasher.count == 1, login


def test_a_password_sent_with_a_sign_up_is_ignored(jane: User) -> None:
    for email in (KNOWN, UNKNOWN):
        request_sign_up(HttpClient(), email, password1="a guess of a stranger")
        assert "is incorrect" in text_of(log_in(HttpClient(), email, "a guess of a stranger"))


def test_unknown_logins_are_limited_like_known_ones(jane: User) -> None:
    pages = []
    for number, login in enumerate((KNOWN, UNKNOWN)):
        http = HttpClient(REMOTE_ADDR=f"192.0.2.{number}")
        pages.append([text_of(log_in(http, login, "wrong")).replace(login, "X") for _ in range(6)])
    assert pages[0] == pages[1]


def test_changing_to_a_known_address_looks_the_same(jane: User) -> None:
    pages = []
    for number, email in enumerate((KNOWN, UNKNOWN)):
        user, http = make_user(), HttpClient(REMOTE_ADDR=f"192.0.2.{number}")
        log_in(http, user.email)
        confirm_identity(http)
        mail.outbox.clear()
        response = http.post("/accounts/email/", {"email": email, "action_add": ""}, follow=True)
        assert [message.to for message in mail.outbox] == [[email]]
        account = Membership.objects.get(user=user).account
        pages.append(text_of(response).replace(email, "X").replace(user.email, "Y").replace(str(account), "Z"))
    assert pages[0] == pages[1]
