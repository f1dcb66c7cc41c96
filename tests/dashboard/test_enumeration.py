"""Login, sign-up and reset tell strangers nothing about addresses, and lock nobody else out."""

import json
from datetime import timedelta
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from celery import Celery
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from django.core import mail
from django.core.cache import cache
from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from dashboard import backends, mails, sign_up, tasks
from simservice.redis.client import redis
from tests.dashboard.browsing import text_of
from tests.dashboard.mailing import asked, link_in, write_mails
from tests.dashboard.test_accounts import PASSWORD, ask_to_sign_up, confirm_identity, log_in
from tests.factories import make_member
from tests.jobs.simulators import wait_until

pytestmark = pytest.mark.django_db
KNOWN, UNKNOWN = "jane@example.org", "nobody@example.org"


class CountingHasher(PBKDF2PasswordHasher):
    """Counts how often a password is hashed."""

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


def work_of(http: HttpClient, path: str, fields: dict[str, str]) -> tuple[Any, ...]:
    """Return what a form costs and answers: hashes, queries, mails sent at once and asked for, and every word."""
    CountingHasher.count = 0
    with CaptureQueriesContext(connection) as queries:
        answer = http.post(path, fields)
    words = text_of(answer).replace(KNOWN, "X").replace(UNKNOWN, "X")
    requested = [task for task, _ in asked()]
    headers = {name for name in answer.headers if name != "X-Request-Id"}
    told = (answer.status_code, answer.headers.get("Location"), words, headers)
    return CountingHasher.count, len(queries), len(mail.outbox), requested, told


FORMS = {
    "login": ("/accounts/login/", "login", {"password": "wrong"}),
    "sign-up": ("/accounts/signup/", "email", {}),
    "sign-up with a password": ("/accounts/signup/", "email", {"password1": PASSWORD}),
    "reset": ("/accounts/password/reset/", "email", {}),
}


@pytest.mark.parametrize(("path", "field", "others"), FORMS.values(), ids=FORMS)
def test_a_known_address_costs_and_answers_like_an_unknown_one(
    path: str, field: str, others: dict[str, str], jane: User
) -> None:
    works = [work_of(HttpClient(), path, {field: address, **others}) for address in (KNOWN, UNKNOWN, KNOWN.upper())]
    assert works[0] == works[1] == works[2]
    assert works[0][2] == 0


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"username": KNOWN},
        {"is_active": False},
        {"password": "!unusable"},
        {"email": "", "username": KNOWN},
    ],
    ids=["usual", "named like the address", "inactive", "no password", "only a name"],
)
def test_every_attempt_to_log_in_hashes_once(change: dict[str, Any], jane: User) -> None:
    User.objects.filter(pk=jane.pk).update(**change)
    User.objects.create_user("twin", email=KNOWN, password="another")
    for login in (KNOWN, "jane", UNKNOWN, "nobody"):
        CountingHasher.count = 0
        assert log_in(HttpClient(), login, "wrong").status_code == 200
        assert CountingHasher.count == 1, login


def test_a_shared_address_belongs_to_who_verified_it(jane: User) -> None:
    twin = User.objects.create_user("twin", email=KNOWN, password="another")
    assert log_in(HttpClient(), KNOWN).status_code == 302
    EmailAddress.objects.filter(user=jane).update(user=twin)
    assert log_in(HttpClient(), KNOWN, "another").status_code == 302
    assert log_in(HttpClient(), KNOWN).status_code == 200
    assert log_in(HttpClient(), "jane").status_code == 302


def test_an_exact_user_name_comes_first(jane: User) -> None:
    User.objects.create_user("Jane", password="another")
    assert log_in(HttpClient(), "Jane", "another").status_code == 302
    assert log_in(HttpClient(), "jane").status_code == 302


def test_a_user_name_comes_before_an_address(jane: User) -> None:
    User.objects.create_user(KNOWN, password="another")
    assert log_in(HttpClient(), KNOWN, "another").status_code == 302
    assert log_in(HttpClient(), KNOWN, PASSWORD).status_code == 200


def test_letters_that_only_look_alike_are_others(jane: User) -> None:
    """Most databases fold more letters than an address does; this one does from here on."""
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
        backends.users_of(UNKNOWN)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for query in queries.captured_queries:
            cursor.execute(f"EXPLAIN {query['sql']}")
            assert "Seq Scan on auth_user" not in str(cursor.fetchall())


@pytest.mark.parametrize(
    ("address", "template"), [(KNOWN, "already have an account"), (UNKNOWN, "choose a password")]
)
def test_signing_up_is_answered_by_mail(address: str, template: str, jane: User) -> None:
    answer = ask_to_sign_up(HttpClient(), address)
    assert answer.headers["Location"] == "/accounts/confirm-email/"
    (one,) = mail.outbox
    assert (one.to, template in str(one.body)) == ([address], True)
    assert User.objects.count() == 1


def test_signing_up_and_logging_in_tells_nothing(jane: User) -> None:
    for address in (KNOWN, UNKNOWN):
        ask_to_sign_up(HttpClient(), address, password1="a guess of a stranger")
        assert "not correct" in text_of(log_in(HttpClient(), address, "a guess of a stranger"))


def test_the_link_makes_a_user_with_a_verified_address() -> None:
    ask_to_sign_up(HttpClient(), UNKNOWN)
    link, http = link_in(mail.outbox[0]), HttpClient()
    assert UNKNOWN in http.get(link).content.decode()
    http.post(link, {"email": "other@example.org", "password1": PASSWORD})
    assert list(EmailAddress.objects.values_list("email", "verified")) == [(UNKNOWN, True)]
    assert http.get("/accounts/profile/").status_code == 200


def test_a_link_makes_one_user() -> None:
    ask_to_sign_up(HttpClient(), UNKNOWN)
    link = link_in(mail.outbox[0])
    HttpClient().post(link, {"password1": PASSWORD})
    again = HttpClient().post(link, {"password1": "another, rarer one"}, follow=True)
    assert "You already have an account" in text_of(again)
    assert User.objects.get().check_password(PASSWORD)


@pytest.mark.parametrize("spoil", ["cut", "forge", "expire"])
def test_a_spoiled_link_is_refused(spoil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_to_sign_up(HttpClient(), UNKNOWN)
    link = link_in(mail.outbox[0])
    if spoil == "expire":
        monkeypatch.setattr(sign_up, "VALID_FOR", timedelta(seconds=-1))
    changed = {"cut": link[:-9] + "/", "forge": link.replace("signup/", "signup/x"), "expire": link}[spoil]
    answer = HttpClient().post(changed, {"password1": PASSWORD})
    assert (answer.status_code, "expired or is incomplete" in text_of(answer)) == (404, True)
    assert not User.objects.exists()


def test_an_address_that_others_claim_is_its_owners(jane: User) -> None:
    """Somebody asked to change to the address, which must neither keep its owner out nor be reset by them."""
    EmailAddress.objects.create(user=jane, email=UNKNOWN)
    HttpClient().post("/accounts/password/reset/", {"email": UNKNOWN})
    assert write_mails() == 0
    ask_to_sign_up(HttpClient(), UNKNOWN)
    HttpClient().post(link_in(mail.outbox[0]), {"password1": PASSWORD})
    assert EmailAddress.objects.get(email=UNKNOWN).user.email == UNKNOWN


def test_one_mailbox_gets_one_mail_a_minute(jane: User) -> None:
    for _ in range(3):
        HttpClient().post("/accounts/password/reset/", {"email": KNOWN})
    assert (write_mails(), len(mail.outbox)) == (1, 1)
    ask_to_sign_up(HttpClient(), KNOWN)
    assert len(mail.outbox) == 2


def test_a_mail_that_failed_is_written_at_the_next_request(jane: User, settings: Settings) -> None:
    working, settings.EMAIL_BACKEND = settings.EMAIL_BACKEND, "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    HttpClient().post("/accounts/password/reset/", {"email": KNOWN})
    assert write_mails() == 0
    settings.EMAIL_BACKEND = working
    HttpClient().post("/accounts/password/reset/", {"email": KNOWN})
    assert write_mails() == 1


def test_the_queue_holds_no_secret(jane: User) -> None:
    HttpClient().post("/accounts/password/reset/", {"email": KNOWN})
    HttpClient().post("/accounts/signup/", {"email": KNOWN, "password1": PASSWORD})
    held = [set(arguments) for _, arguments in asked()]
    assert held == [{"email", "base"}, {"email", "base", "wanted", "invitation"}]


@pytest.mark.parametrize("path", ["/accounts/signup/", "/accounts/password/reset/"])
def test_without_a_broker_the_form_says_so(path: str, jane: User, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = Celery("nowhere", broker="redis://127.0.0.1:1", set_as_current=False)
    nowhere.conf.task_publish_retry = False
    nowhere.conf.broker_transport_options = {"max_retries": 0}
    monkeypatch.setattr(mails, "app", nowhere)
    answer = HttpClient().post(path, {"email": UNKNOWN}, follow=True)
    assert "We cannot send mail at the moment" in text_of(answer)


def test_an_inactive_user_gets_no_reset(jane: User) -> None:
    User.objects.update(is_active=False)
    HttpClient().post("/accounts/password/reset/", {"email": KNOWN})
    assert write_mails() == 0


def test_an_address_that_another_user_verified_stays_theirs(jane: User) -> None:
    EmailAddress.objects.create(user=jane, email=UNKNOWN, verified=True)
    ask_to_sign_up(HttpClient(), UNKNOWN)
    HttpClient().post(link_in(mail.outbox[0]), {"password1": PASSWORD})
    assert EmailAddress.objects.get(email=UNKNOWN).user == jane


def test_a_mail_that_no_worker_takes_is_dropped_in_time(jane: User) -> None:
    HttpClient().post("/accounts/password/reset/", {"email": KNOWN})
    assert json.loads(str(redis().lindex("control", 0)))["headers"]["expires"]


def test_what_waits_for_the_mail_server_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    while tasks.room.acquire(blocking=False):
        pass
    tasks.in_background(lambda: pytest.fail("it was written"))
    for _ in range(1_000):
        tasks.room.release()
    assert "a mail was dropped" in caplog.text


def test_a_mail_that_cannot_be_written_is_logged_and_leaves_its_place(caplog: pytest.LogCaptureFixture) -> None:
    tasks.room.acquire()
    tasks.written(lambda: 1 // 0)
    assert "a mail was not written" in caplog.text
    with pytest.raises(ValueError, match="released too many times"):
        tasks.room.release()


@pytest.mark.django_db(transaction=True)
def test_a_worker_writes_the_mail_beside_its_other_tasks(jane: User) -> None:
    HttpClient().post("/accounts/password/reset/", {"email": KNOWN})
    ((_, arguments),) = asked()
    tasks.mail_reset_link(**arguments)
    wait_until(lambda: bool(mail.outbox))
    assert [one.to for one in mail.outbox] == [[KNOWN]]


def from_address(address: str) -> HttpClient:
    """Return a browser at an address."""
    return HttpClient(REMOTE_ADDR=address)


def test_a_strangers_guesses_lock_no_owner_out(jane: User) -> None:
    for number in range(6):
        refused = log_in(from_address("192.0.2.1"), KNOWN.upper() if number % 2 else KNOWN, "wrong")
    assert "Too many failed" in text_of(refused)
    assert "Too many failed" in text_of(log_in(from_address("192.0.2.1"), KNOWN))
    assert log_in(from_address("192.0.2.2"), KNOWN).status_code == 302


def test_one_address_guesses_few_logins() -> None:
    answers = [log_in(from_address("192.0.2.1"), f"{number}@example.org", "wrong") for number in range(11)]
    assert ["Too many failed" in text_of(answer) for answer in answers] == [False] * 10 + [True]


def test_an_unknown_login_is_locked_like_a_known_one(jane: User) -> None:
    told = []
    for number, login in enumerate((KNOWN, UNKNOWN)):
        http = from_address(f"192.0.2.{number}")
        told.append([text_of(log_in(http, login, "wrong")).replace(login, "X") for _ in range(6)])
    assert told[0] == told[1]


def test_behind_a_proxy_the_caller_is_counted(jane: User, settings: Settings) -> None:
    settings.TRUSTED_PROXIES = 1

    def guess(forwarded: str, password: str) -> Any:
        return log_in(HttpClient(headers={"x-forwarded-for": forwarded}), KNOWN, password)

    for number in range(6):
        refused = guess(f"198.51.100.{number}, 192.0.2.1", "wrong")
    assert "Too many failed" in text_of(refused)
    assert guess("192.0.2.1, 192.0.2.2", PASSWORD).status_code == 302


@pytest.mark.parametrize("forwarded", ["", "192.0.2.1", "unknown, unknown", "192.0.2.1:80, 192.0.2.2:80", ","])
def test_odd_lists_of_proxies_keep_nobody_out(forwarded: str, jane: User, settings: Settings) -> None:
    settings.TRUSTED_PROXIES = 2
    http = HttpClient(headers={"x-forwarded-for": forwarded})
    for _ in range(6):
        refused = log_in(http, KNOWN, "wrong")
    assert "Too many failed" in text_of(refused)
    cache.clear()
    assert log_in(http, KNOWN).status_code == 302


def test_nobody_uses_up_an_owners_resets(jane: User) -> None:
    for _ in range(10):
        assert from_address("192.0.2.1").post("/accounts/password/reset/", {"email": KNOWN}).status_code == 302
    assert from_address("192.0.2.2").post("/accounts/password/reset/", {"email": KNOWN}).status_code == 302
    assert write_mails() == 1


def test_changing_to_a_known_address_answers_alike(jane: User) -> None:
    told = []
    for number, address in enumerate((KNOWN, UNKNOWN)):
        place = make_member()
        place.user.set_password(PASSWORD)
        place.user.save()
        http = from_address(f"192.0.2.{number}")
        log_in(http, place.user.email)
        confirm_identity(http)
        mail.outbox.clear()
        answer = http.post("/accounts/email/", {"email": address, "action_add": ""}, follow=True)
        assert [one.to for one in mail.outbox] == [[address]]
        told.append(text_of(answer).replace(address, "X").replace(place.user.email, "Y"))
    assert told[0] == told[1]
