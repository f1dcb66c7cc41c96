"""One-time tokens of forms."""

import threading
from contextlib import suppress

import pytest
from django.db import transaction
from django.utils import timezone

from clients import form_tokens
from clients.errors import FormAlreadySent, InvalidFormToken
from clients.models import SentForm
from tests.concurrency import at_once

pytestmark = pytest.mark.django_db


def test_a_token_can_be_used_once() -> None:
    token = form_tokens.issue(1, "key")
    form_tokens.use(token, 1, "key")
    with pytest.raises(FormAlreadySent):
        form_tokens.use(token, 1, "key")


@pytest.mark.parametrize(("user", "purpose"), [(2, "key"), (1, "other")], ids=["user", "purpose"])
def test_a_token_is_valid_for_one_user_and_purpose(user: int, purpose: str) -> None:
    with pytest.raises(InvalidFormToken):
        form_tokens.use(form_tokens.issue(1, "key"), user, purpose)


@pytest.mark.parametrize("token", ["", "x", "a:b:c"])
def test_a_forged_token_is_rejected(token: str) -> None:
    with pytest.raises(InvalidFormToken):
        form_tokens.use(token, 1, "key")


def test_an_expired_token_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    token = form_tokens.issue(1, "key")
    monkeypatch.setattr("django.core.signing.time.time", lambda: timezone.now().timestamp() + 86_401)
    with pytest.raises(InvalidFormToken):
        form_tokens.use(token, 1, "key")


def test_a_rollback_makes_a_token_usable_again() -> None:
    token = form_tokens.issue(1, "key")
    with transaction.atomic():
        form_tokens.use(token, 1, "key")
        transaction.set_rollback(True)
    form_tokens.use(token, 1, "key")


def test_expired_tokens_are_deleted() -> None:
    SentForm.objects.create(token="old", sent_at=timezone.now() - 3 * form_tokens.LIFETIME)
    SentForm.objects.create(token="young", sent_at=timezone.now() - form_tokens.LIFETIME)
    form_tokens.use(form_tokens.issue(1, "key"), 1, "key")
    assert set(SentForm.objects.values_list("token", flat=True)) >= {"young"}
    assert not SentForm.objects.filter(token="old").exists()


@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_use_a_token_once() -> None:
    token = form_tokens.issue(1, "key")
    processed = []

    def send() -> None:
        with suppress(FormAlreadySent), transaction.atomic():
            form_tokens.use(token, 1, "key")
            processed.append(1)

    at_once(4, send)
    assert processed == [1]


@pytest.mark.django_db(transaction=True)
def test_forms_do_not_wait_for_each_others_deletions() -> None:
    SentForm.objects.create(token="old", sent_at=timezone.now() - 3 * form_tokens.LIFETIME)
    with transaction.atomic():
        form_tokens.use(form_tokens.issue(1, "key"), 1, "key")
        other = threading.Thread(
            target=at_once, args=(1, lambda: form_tokens.use(form_tokens.issue(2, "key"), 2, "key"))
        )
        other.start()
        other.join(5)
        assert not other.is_alive()
    assert SentForm.objects.count() == 2
