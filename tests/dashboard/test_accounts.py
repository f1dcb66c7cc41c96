"""People: signing up, logging in, second factors, sessions."""

import re
import time
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core import mail
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import Settings

from clients.models import Membership
from dashboard.tasks import forget_sessions
from simservice.redis.client import redis
from tests.concurrency import at_once
from tests.dashboard.mailing import link_in, write_mails
from tests.factories import make_member

pytestmark = pytest.mark.django_db
PASSWORD = "long enough, and rare"


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def ask_to_sign_up(http: HttpClient, email: str = "jane@example.org", **fields: str) -> Any:
    """Send the form for signing up, and let a worker write what it asks for."""
    answer = http.post("/accounts/signup/", {"email": email, **fields})
    write_mails()
    return answer


def sign_up(http: HttpClient, email: str = "jane@example.org", **fields: str) -> Any:
    """Sign up: send an address, open the link that is mailed there, and choose a password."""
    ask_to_sign_up(http, email, **fields)
    return http.post(link_in(mail.outbox.pop()), {"password1": PASSWORD})


def log_in(http: HttpClient, login: str, password: str = PASSWORD) -> Any:
    """Send the form for logging in."""
    return http.post("/accounts/login/", {"login": login, "password": password})


def confirm_identity(http: HttpClient) -> Any:
    """Give the password again."""
    return http.post("/accounts/reauthenticate/", {"password": PASSWORD})


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


def test_strangers_can_be_kept_out(settings: Settings) -> None:
    settings.ALLOW_SIGNUP = False
    assert "Sign-up is closed" in ask_to_sign_up(HttpClient()).content.decode()
    assert mail.outbox == []
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
    write_mails()
    form = http.get(link_in(mail.outbox[0]), follow=True)
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
    for nonsense in ("", "x", "9" * 30, str(2**40)):
        here.post("/accounts/sessions/", {"session": nonsense})
    assert there.get("/accounts/profile/").status_code == 200
    here.post("/accounts/sessions/", {"session": number})
    assert there.get("/accounts/profile/").status_code == 302
    assert here.get("/accounts/profile/").status_code == 200


def test_guesses_are_limited_for_each_login_and_forgotten_without_redis(settings: Settings) -> None:
    user = make_member().user
    user.set_password(PASSWORD)
    user.save()
    for _ in range(5):
        assert log_in(HttpClient(), user.email, "wrong").status_code == 200
    refused = log_in(HttpClient(), user.email)
    assert "Too many failed login attempts" in refused.content.decode()
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1"}}
    assert log_in(HttpClient(), user.email).status_code == 302


def test_a_page_that_is_asked_for_too_often_says_so(settings: Settings) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"reset_password": "2/m/ip"}
    addresses = [f"{number}@example.org" for number in range(3)]
    *_, last = [HttpClient().post("/accounts/password/reset/", {"email": address}) for address in addresses]
    assert last.status_code == 429
    assert "Try again in a few minutes" in last.content.decode()


@pytest.mark.django_db(transaction=True)
def test_a_form_sent_twice_at_once_makes_one_user() -> None:
    answers = []
    ask_to_sign_up(HttpClient())
    link = link_in(mail.outbox[0])
    at_once(2, lambda: answers.append(HttpClient().post(link, {"password1": PASSWORD}).status_code))
    assert User.objects.count() == 1
    assert Membership.objects.count() == 1
    assert set(answers) <= {200, 302}


def test_whoever_was_on_the_way_to_a_page_arrives_there() -> None:
    owner = make_member()
    owner.user.set_password(PASSWORD)
    owner.user.save()
    http = HttpClient()
    wanted = f"/dashboard/{owner.account}/credits"
    asked = http.get(wanted).headers["Location"]
    assert asked == f"/accounts/login/?next={wanted}"
    answer = http.post(asked, {"login": owner.user.email, "password": PASSWORD})
    assert answer.headers["Location"] == wanted
    elsewhere = HttpClient().post(
        "/accounts/login/?next=https://example.org/", {"login": owner.user.email, "password": PASSWORD}
    )
    assert elsewhere.headers["Location"] == "/dashboard/"


def test_a_form_of_another_session_is_refused_in_words() -> None:
    answer = HttpClient(enforce_csrf_checks=True).post("/accounts/login/", {"login": "x", "password": "x"})
    assert (answer.status_code, "form has expired" in answer.content.decode()) == (403, True)


def test_a_second_factor_is_set_up_and_taken_away() -> None:
    user = make_member().user
    user.set_password(PASSWORD)
    user.save()
    http = HttpClient()
    log_in(http, user.email)
    asked = http.get("/accounts/2fa/totp/activate/").headers["Location"]
    assert http.post(asked, {"password": PASSWORD}).headers["Location"] == "/accounts/2fa/totp/activate/"
    page = http.get("/accounts/2fa/totp/activate/").content.decode()
    (secret,) = re.findall(r"<code>([A-Z2-7]{32})</code>", page)
    assert http.post("/accounts/2fa/totp/activate/", {"code": "000000x"}).status_code == 200
    http.post("/accounts/2fa/totp/activate/", {"code": code_of(secret)})
    codes = re.findall(r"<li><code>(\d+)</code></li>", http.get("/accounts/2fa/recovery-codes/").content.decode())
    assert len(codes) == 10
    other = HttpClient()
    log_in(other, user.email)
    other.post("/accounts/2fa/authenticate/", {"code": codes[0]})
    assert other.get("/accounts/profile/").status_code == 200
    again = HttpClient()
    log_in(again, user.email)
    again.post("/accounts/2fa/authenticate/", {"code": codes[0]})
    assert again.get("/accounts/profile/").status_code == 302
    http.post("/accounts/2fa/totp/deactivate/")
    assert not Authenticator.objects.filter(user=user).exists()


def in_session(http: HttpClient) -> User:
    """Sign up in a browser, so that its login is as old as the session."""
    sign_up(http)
    return User.objects.get()


SENSITIVE = [
    ("/accounts/email/", {"email": "jane@example.net", "action_add": ""}),
    ("/accounts/email/", {"email": "jane@example.org", "action_remove": ""}),
    ("/accounts/email/", {"email": "jane@example.org", "action_primary": ""}),
    ("/accounts/2fa/totp/activate/", {"code": "123456"}),
    ("/accounts/2fa/totp/deactivate/", {}),
    ("/accounts/2fa/recovery-codes/generate/", {}),
    ("/accounts/2fa/recovery-codes/", None),
    ("/accounts/2fa/recovery-codes/download/", None),
]


@pytest.mark.parametrize(("path", "fields"), SENSITIVE, ids=[f"{path} {fields}" for path, fields in SENSITIVE])
@pytest.mark.parametrize("minutes", [None, 6], ids=["never", "long ago"])
def test_what_decides_over_a_login_asks_for_the_password_again(
    path: str, fields: dict[str, str] | None, minutes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = HttpClient()
    user = in_session(http)
    if "activate" not in path.replace("deactivate", ""):
        totp.TOTP.activate(user, totp.generate_totp_secret())
        RecoveryCodes.activate(user)
    if minutes is not None:
        confirm_identity(http)
        later = time.time() + minutes * 60
        monkeypatch.setattr(time, "time", lambda: later)
    before = list(Authenticator.objects.values_list("pk", "data")), list(EmailAddress.objects.values())
    answer = http.get(path) if fields is None else http.post(path, fields)
    assert answer.headers["Location"].startswith("/accounts/reauthenticate/?next=")
    assert before == (list(Authenticator.objects.values_list("pk", "data")), list(EmailAddress.objects.values()))
    assert mail.outbox == []


def test_a_changed_address_is_asked_for_once_the_password_was_given() -> None:
    http = HttpClient()
    in_session(http)
    asked = http.post("/accounts/email/", {"email": "jane@example.net", "action_add": ""}).headers["Location"]
    assert http.post(asked, {"password": "wrong"}).status_code == 200
    assert mail.outbox == []
    http.post(asked, {"password": PASSWORD})
    assert [one.to for one in mail.outbox] == [["jane@example.net"]]


def test_sessions_whose_time_is_over_are_forgotten() -> None:
    user = make_member().user
    user.set_password(PASSWORD)
    user.save()
    here, there = HttpClient(), HttpClient()
    for http in (here, there):
        log_in(http, user.email)
    Session.objects.filter(pk=there.session.session_key).update(expire_date=timezone.now())
    forget_sessions()
    assert list(Session.objects.values_list("pk", flat=True)) == [here.session.session_key]
    assert list(UserSession.objects.values_list("session_key", flat=True)) == [here.session.session_key]


def test_an_expired_session_leads_to_the_login_and_back() -> None:
    owner = make_member()
    http = HttpClient()
    http.force_login(owner.user)
    Session.objects.all().delete()
    answer = http.post(f"/dashboard/{owner.account}/clients", {"name": "bot"})
    assert answer.headers["Location"] == f"/accounts/login/?next=/dashboard/{owner.account}/clients"
    assert not owner.account.clients.filter(name="bot").exists()


def test_a_suspended_account_says_so() -> None:
    owner = make_member()
    owner.account.suspended_at = timezone.now()
    owner.account.save()
    http = HttpClient()
    http.force_login(owner.user)
    assert "is suspended" in http.get(f"/dashboard/{owner.account}/").content.decode()


def test_whoever_may_not_do_something_is_told_their_role() -> None:
    viewer = make_member(role="viewer")
    http = HttpClient()
    http.force_login(viewer.user)
    answer = http.post(f"/dashboard/{viewer.account}/clients", {"name": "bot"})
    assert (answer.status_code, "is viewer" in answer.content.decode()) == (403, True)
    assert http.get("/admin/login/").status_code == 403


def test_a_new_address_is_verified_by_mail(settings: Settings) -> None:
    http = HttpClient()
    sign_up(http)
    confirm_identity(http)
    settings.PUBLIC_BASE_URL = "https://sim.example.org"
    http.post("/accounts/email/", {"email": "jane@example.net", "action_add": ""})
    assert "is not verified yet" in http.get("/accounts/email/").content.decode()
    found = link_in(mail.outbox[0], base="https://sim.example.org")
    assert "jane@example.net" in HttpClient().get(found).content.decode()
    http.post(found)
    assert list(EmailAddress.objects.values_list("email", "verified")) == [("jane@example.net", True)]


def test_strangers_addresses_get_no_mail() -> None:
    answer = HttpClient().post("/accounts/password/reset/", {"email": "nobody@example.org"})
    write_mails()
    assert answer.headers["Location"] == "/accounts/password/reset/done/"
    assert mail.outbox == []


def test_a_changed_password_is_told_and_ends_other_sessions() -> None:
    sign_up(HttpClient())
    here, there = HttpClient(), HttpClient()
    for http in (here, there):
        log_in(http, "jane@example.org")
    mail.outbox.clear()
    fields = {"oldpassword": PASSWORD, "password1": "another, rarer one", "password2": "another, rarer one"}
    here.post("/accounts/password/change/", fields)
    assert here.get("/accounts/profile/").status_code == 200
    assert there.get("/accounts/profile/").status_code == 302
    assert [one.to for one in mail.outbox] == [["jane@example.org"]]


def test_a_service_without_mail_says_so(settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    http = HttpClient()
    assert "sends no email" in http.get("/accounts/password/reset/").content.decode()
    done = http.post("/accounts/password/reset/", {"email": "jane@example.org"}, follow=True)
    assert "No email was sent" in done.content.decode()
    assert redis().llen("control") == 0


def test_without_mail_signing_up_is_one_step(settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    http, fields = HttpClient(), {"email": "jane@example.org", "password1": PASSWORD}
    assert http.post("/accounts/signup/", fields).headers["Location"] == "/dashboard/"
    assert not EmailAddress.objects.get().verified
    again = HttpClient().post("/accounts/signup/", fields | {"email": "Jane@Example.org"})
    assert "already" in again.content.decode()
    assert User.objects.count() == 1


def test_another_users_sessions_are_not_ended() -> None:
    mine, theirs = HttpClient(), HttpClient()
    sign_up(mine, "jane@example.org")
    sign_up(theirs, "john@example.org")
    for chosen in (*UserSession.objects.values_list("pk", flat=True), "others"):
        mine.post("/accounts/sessions/", {"session": str(chosen)})
    assert [http.get("/accounts/profile/").status_code for http in (mine, theirs)] == [200, 200]
