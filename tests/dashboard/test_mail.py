"""Mail that pages enqueue and workers send."""

import json

import pytest
from celery import Celery
from django.contrib.auth.models import User
from django.core import mail as outgoing
from django.db import transaction
from django.test import Client as HttpClient
from pytest_django import Settings

from dashboard import tasks
from simservice.redis.client import redis
from simservice.web import mail
from tests.dashboard.browsing import text_of
from tests.dashboard.mailing import take_tasks, write_mails
from tests.dashboard.signing_in import PASSWORD, request_sign_up
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fast_hasher")]
EMAIL = "jane@example.org"


@pytest.fixture(autouse=True)
def _jane() -> None:
    User.objects.create_user("jane", email=EMAIL, password=PASSWORD)


def request_reset() -> None:
    """Request a password reset, which enqueues a mail."""
    HttpClient().post("/accounts/password/reset/", {"email": EMAIL})


@pytest.mark.parametrize(
    ("email", "phrase"),
    [(EMAIL, "have already signed up"), ("new@example.org", "choose a password")],
    ids=["known", "unknown"],
)
def test_a_sign_up_is_answered_by_mail(email: str, phrase: str) -> None:
    response = request_sign_up(HttpClient(), email)
    assert response.headers["Location"] == "/accounts/confirm-email/"
    (message,) = outgoing.outbox
    assert (message.to, phrase in str(message.body)) == ([email], True)
    assert User.objects.count() == 1


def test_an_address_gets_one_mail_of_a_kind_a_minute() -> None:
    for _ in range(3):
        request_reset()
    assert (write_mails(), len(outgoing.outbox)) == (1, 1)
    request_sign_up(HttpClient(), EMAIL)
    assert len(outgoing.outbox) == 2


def test_a_failed_mail_is_not_throttled(settings: Settings) -> None:
    working, settings.EMAIL_BACKEND = settings.EMAIL_BACKEND, "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    request_reset()
    assert write_mails() == 0
    settings.EMAIL_BACKEND = working
    request_reset()
    assert write_mails() == 1


def test_the_queue_contains_no_secret() -> None:
    request_reset()
    HttpClient().post("/accounts/signup/", {"email": EMAIL, "password1": PASSWORD})
    arguments = [set(arguments) for _, arguments in take_tasks()]
    assert arguments == [{"email", "base"}, {"email", "base", "wanted", "invitation"}]


def test_a_mail_that_no_worker_takes_expires() -> None:
    request_reset()
    assert json.loads(str(redis().lindex("control", 0)))["headers"]["expires"]


@pytest.mark.parametrize("path", ["/accounts/signup/", "/accounts/password/reset/"])
def test_without_a_broker_the_form_shows_an_error(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unreachable = Celery("unreachable", broker="redis://127.0.0.1:1", set_as_current=False)
    unreachable.conf.task_publish_retry = False
    unreachable.conf.broker_transport_options = {"max_retries": 0}
    monkeypatch.setattr(mail, "app", unreachable)
    response = HttpClient().post(path, {"email": "new@example.org"}, follow=True)
    assert "We cannot send email at the moment" in text_of(response)


@pytest.mark.django_db(transaction=True)
def test_mail_is_enqueued_after_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "on_commit", transaction.on_commit)
    with transaction.atomic():
        request_reset()
        assert take_tasks() == []
    assert [task for task, _ in take_tasks()] == ["dashboard.tasks.mail_reset_link"]


def test_waiting_mails_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    while mail._queue_slots.acquire(blocking=False):
        pass
    mail.run_in_background(lambda: pytest.fail("the mail was sent"))
    for _ in range(1_000):
        mail._queue_slots.release()
    assert "mail dropped" in caplog.text


def test_an_error_is_logged_and_frees_its_place(caplog: pytest.LogCaptureFixture) -> None:
    mail._queue_slots.acquire()
    mail._run(lambda: 1 // 0)
    assert "mail was not sent" in caplog.text
    with pytest.raises(ValueError, match="released too many times"):
        mail._queue_slots.release()


@pytest.mark.django_db(transaction=True)
def test_a_worker_sends_mail_in_the_background() -> None:
    request_reset()
    ((_, arguments),) = take_tasks()
    tasks.mail_reset_link(**arguments)
    wait_until(lambda: bool(outgoing.outbox))
    assert [message.to for message in outgoing.outbox] == [[EMAIL]]
