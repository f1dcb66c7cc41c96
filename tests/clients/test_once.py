"""Forms that do their work once."""

from contextlib import suppress

import pytest
from django.db import transaction
from django.utils import timezone

from clients import once
from clients.models import SentForm
from tests.concurrency import at_once

pytestmark = pytest.mark.django_db


def test_a_form_is_used_once() -> None:
    form = once.new_form(1, "key")
    once.use(form, 1, "key")
    with pytest.raises(once.SentBefore):
        once.use(form, 1, "key")


@pytest.mark.parametrize(("user", "purpose"), [(2, "key"), (1, "other")], ids=["user", "purpose"])
def test_a_form_is_one_users_and_for_one_purpose(user: int, purpose: str) -> None:
    with pytest.raises(once.TooOld):
        once.use(once.new_form(1, "key"), user, purpose)


@pytest.mark.parametrize("form", ["", "x", "a:b:c"])
def test_a_made_up_form_is_refused(form: str) -> None:
    with pytest.raises(once.TooOld):
        once.use(form, 1, "key")


def test_an_old_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    form = once.new_form(1, "key")
    monkeypatch.setattr("django.core.signing.time.time", lambda: timezone.now().timestamp() + 86_401)
    with pytest.raises(once.TooOld):
        once.use(form, 1, "key")


def test_when_the_work_fails_the_form_can_be_sent_again() -> None:
    form = once.new_form(1, "key")
    with transaction.atomic():
        once.use(form, 1, "key")
        transaction.set_rollback(True)
    once.use(form, 1, "key")


def test_old_tokens_are_forgotten() -> None:
    SentForm.objects.create(token="old", sent_at=timezone.now() - 3 * once.LASTS)
    SentForm.objects.create(token="young", sent_at=timezone.now() - once.LASTS)
    once.use(once.new_form(1, "key"), 1, "key")
    assert set(SentForm.objects.values_list("token", flat=True)) >= {"young"}
    assert not SentForm.objects.filter(token="old").exists()


@pytest.mark.django_db(transaction=True)
def test_sent_many_times_at_once_it_works_once() -> None:
    form = once.new_form(1, "key")
    worked = []

    def send() -> None:
        with suppress(once.SentBefore), transaction.atomic():
            once.use(form, 1, "key")
            worked.append(1)

    at_once(4, send)
    assert worked == [1]
