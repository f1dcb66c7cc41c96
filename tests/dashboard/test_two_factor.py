"""Two-factor authentication, and the changes that require the password again."""

import re
import time
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client as HttpClient

from tests.dashboard.signing_in import (
    PASSWORD,
    code_of,
    confirm_identity,
    is_logged_in,
    log_in,
    make_user,
    sign_up,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fast_hasher")]
ACTIVATE = "/accounts/2fa/totp/activate/"


def test_login_on_the_way_to_the_admin_requires_a_code() -> None:
    user = User.objects.create_superuser("operator", password=PASSWORD)
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(user, secret)
    http = HttpClient()
    assert http.get("/admin/login/?next=/admin/").headers["Location"] == "/accounts/login/?next=%2Fadmin%2F"
    first = http.post("/accounts/login/?next=/admin/", {"login": "operator", "password": PASSWORD})
    assert first.headers["Location"].startswith("/accounts/2fa/authenticate/")
    assert http.get("/admin/").status_code == 302
    second = http.post("/accounts/2fa/authenticate/", {"code": code_of(secret)})
    assert second.headers["Location"] == "/admin/"
    assert http.get("/admin/").status_code == 200


def test_pages_that_ask_for_a_code_or_the_password_focus_it() -> None:
    def focused(http: HttpClient, path: str) -> list[str]:
        return re.findall(r'name="(\w+)"[^>]* autofocus', http.get(path).content.decode())

    user, http = make_user(), HttpClient()
    log_in(http, user.username)
    assert focused(http, "/accounts/reauthenticate/") == ["password"]
    totp.TOTP.activate(user, totp.generate_totp_secret())
    assert focused(http, "/accounts/2fa/reauthenticate/") == ["code"]
    other = HttpClient()
    log_in(other, user.username)
    assert focused(other, "/accounts/2fa/authenticate/") == ["code"]


def test_the_secret_is_encrypted_in_the_database() -> None:
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(make_user(), secret)
    assert secret not in str(Authenticator.objects.get().data)


def set_up_app(http: HttpClient) -> list[str]:
    """Set up an authenticator app and return the recovery codes."""
    reauthenticate = http.get(ACTIVATE).headers["Location"]
    assert http.post(reauthenticate, {"password": PASSWORD}).headers["Location"] == ACTIVATE
    (secret,) = re.findall(r"<code>([A-Z2-7]{32})</code>", http.get(ACTIVATE).content.decode())
    assert http.post(ACTIVATE, {"code": "000000x"}).status_code == 200
    http.post(ACTIVATE, {"code": code_of(secret)})
    return re.findall(r"<li><code>(\d+)</code></li>", http.get("/accounts/2fa/recovery-codes/").content.decode())


def test_an_authenticator_app_is_set_up_and_turned_off() -> None:
    user, http = make_user(), HttpClient()
    log_in(http, user.email)
    assert len(set_up_app(http)) == 10
    http.post("/accounts/2fa/totp/deactivate/")
    assert not Authenticator.objects.filter(user=user).exists()


def test_a_recovery_code_works_only_once() -> None:
    user, http = make_user(), HttpClient()
    log_in(http, user.email)
    code = set_up_app(http)[0]
    first, second = HttpClient(), HttpClient()
    for browser in (first, second):
        log_in(browser, user.email)
        browser.post("/accounts/2fa/authenticate/", {"code": code})
    assert is_logged_in(first)
    assert not is_logged_in(second)


SENSITIVE = [
    ("/accounts/email/", {"email": "jane@example.net", "action_add": ""}),
    ("/accounts/email/", {"email": "jane@example.org", "action_remove": ""}),
    ("/accounts/email/", {"email": "jane@example.org", "action_primary": ""}),
    (ACTIVATE, {"code": "123456"}),
    ("/accounts/2fa/totp/deactivate/", {}),
    ("/accounts/2fa/recovery-codes/generate/", {}),
    ("/accounts/2fa/recovery-codes/", None),
    ("/accounts/2fa/recovery-codes/download/", None),
]


def login_settings() -> tuple[list[Any], ...]:
    """Return the rows of second factors and email addresses."""
    return list(Authenticator.objects.values_list("pk", "data")), list(EmailAddress.objects.values())


@pytest.mark.parametrize(("path", "fields"), SENSITIVE, ids=[f"{path} {fields}" for path, fields in SENSITIVE])
@pytest.mark.parametrize("minutes", [None, 6], ids=["never", "long ago"])
def test_sensitive_changes_require_the_password_again(
    path: str, fields: dict[str, str] | None, minutes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = HttpClient()
    user = sign_up(http)
    if path != ACTIVATE:
        totp.TOTP.activate(user, totp.generate_totp_secret())
        RecoveryCodes.activate(user)
    if minutes is not None:
        confirm_identity(http)
        later = time.time() + minutes * 60
        monkeypatch.setattr(time, "time", lambda: later)
    before = login_settings()
    response = http.get(path) if fields is None else http.post(path, fields)
    assert response.headers["Location"].startswith("/accounts/reauthenticate/?next=")
    assert login_settings() == before
    assert mail.outbox == []
