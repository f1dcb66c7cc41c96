"""Low-credit notices: once for each drop, by email and as an event."""

import json
from datetime import timedelta

import pytest
from django.core import mail
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from billing import ledger
from billing.models import Account
from clients import credit_notices
from clients.audit import SYSTEM
from clients.models import CreditsNotice
from tests.concurrency import at_once
from tests.factories import make_account, make_client, make_member
from webhooks import endpoints, labels, low_credits, tasks
from webhooks.models import Event

pytestmark = pytest.mark.django_db


@pytest.fixture
def account() -> Account:
    account = make_account(credits=1_000)
    credit_notices.set_threshold(account, 500, by=SYSTEM)
    return account


def change(account: Account, amount: int) -> None:
    ledger.correct(account, amount, reason="for the test")


def later() -> None:
    """Let the shortest interval between two notices pass."""
    CreditsNotice.objects.update(fell_at=timezone.now() - timedelta(hours=2))


def test_each_fall_is_reported_once(account: Account) -> None:
    falls = []
    for amount in (0, -500, -1, -100, 601, -600):
        if amount:
            change(account, amount)
        falls.append(low_credits.compare_all())
        later()
    assert falls == [0, 0, 1, 0, 0, 1]


def test_a_second_fall_is_reported_after_an_hour(account: Account) -> None:
    for amount in (-600, 600, -600):
        change(account, amount)
        low_credits.compare_all()
    notice = CreditsNotice.objects.get()
    assert (notice.is_low, notice.tell_owners_at) == (False, None)
    later()
    assert low_credits.compare_all() == 1


def test_owners_get_one_mail(account: Account) -> None:
    owners = [make_member(account).user.email for _ in range(2)]
    make_member(account, role="member")
    make_member(make_account())
    change(account, -600)
    for _ in range(2):
        tasks.report_low_credits()
    (sent,) = mail.outbox
    assert sorted(sent.to) == sorted(owners)
    assert sent.subject == f"{account} is low on credits"
    assert "400 credits left, fewer than your threshold of 500" in sent.body


def test_a_mail_that_fails_is_sent_later(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    make_member(account)
    change(account, -600)

    def fail(*_: object, **__: object) -> None:
        raise OSError

    with monkeypatch.context() as broken:
        broken.setattr("simservice.web.mail.send_mail", fail)
        tasks.report_low_credits()
    tasks.report_low_credits()
    assert mail.outbox == []
    CreditsNotice.objects.update(tell_owners_at=timezone.now())
    tasks.report_low_credits()
    assert len(mail.outbox) == 1
    assert CreditsNotice.objects.get().tell_owners_at is None


def test_webhooks_that_want_it_get_an_event(account: Account) -> None:
    wanting, other, disabled = (make_client(account, name) for name in ("wanting", "other", "disabled"))
    for client in (wanting, other, disabled):
        endpoints.install(client, "https://hooks.example.com/", by=SYSTEM)
    for client in (wanting, disabled):
        endpoints.report_low_credits(client, is_wanted=True, by=SYSTEM)
    endpoints.disable(disabled, by=SYSTEM)
    change(account, -600)
    low_credits.compare_all()
    event = Event.objects.get()
    body = json.loads(bytes(event.body))
    assert event.client == wanting
    assert body == {
        "kind": "account.credits_low",
        "version": "v1",
        "timestamp": body["timestamp"],
        "payload": {"available": 400, "threshold": 500},
    }
    assert labels.summary(event) == "Low credits"


def test_expired_grants_are_not_counted_and_suspended_accounts_get_no_notice(account: Account) -> None:
    change(account, -1_000)
    Account.objects.update(suspended_at=timezone.now())
    assert low_credits.compare_all() == 0
    Account.objects.update(suspended_at=None)
    assert low_credits.compare_all() == 1


def test_a_number_above_the_balance_waits_for_the_next_fall(account: Account) -> None:
    credit_notices.set_threshold(account, 2_000, by=SYSTEM)
    assert low_credits.compare_all() == 0
    change(account, 1_500)
    assert low_credits.compare_all() == 0
    change(account, -1_500)
    assert low_credits.compare_all() == 1
    credit_notices.set_threshold(account, None, by=SYSTEM)
    assert not CreditsNotice.objects.exists()


def test_two_queries_compare_a_batch(account: Account, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for _ in range(3):
        credit_notices.set_threshold(make_account(), 5, by=SYSTEM)
    with django_assert_num_queries(3):  # the last one finds no further batch
        low_credits.compare_all()


def test_every_batch_is_compared(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        credit_notices.set_threshold(other := make_account(credits=10), 5, by=SYSTEM)
        change(other, -8)
    monkeypatch.setattr(low_credits, "BATCH", 1)
    assert low_credits.compare_all() == 2


@pytest.mark.django_db(transaction=True)
def test_two_workers_report_a_fall_once(account: Account) -> None:
    client = make_client(account)
    make_member(account)
    endpoints.install(client, "https://hooks.example.com/", by=SYSTEM)
    endpoints.report_low_credits(client, is_wanted=True, by=SYSTEM)
    change(account, -600)
    at_once(3, tasks.report_low_credits)
    assert (Event.objects.count(), len(mail.outbox)) == (1, 1)
