"""Fixtures for the tests of pages."""

import pytest
from pytest_django import Settings

from clients.models import Membership
from simservice.web import mail
from tests.factories import make_member


@pytest.fixture(autouse=True)
def _enqueue_mail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enqueue mail without waiting for a commit, because most tests roll back."""
    monkeypatch.setattr(mail, "on_commit", lambda publish: publish())


@pytest.fixture
def fast_hasher(settings: Settings) -> None:
    """Hash passwords with MD5, to save time."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def owner() -> Membership:
    """Return an owner of an account."""
    return make_member()
