"""Fixtures for all tests: callers of the API, and an empty Redis."""

import json
import os
from typing import Any

import pytest
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.test import Client as HttpClient
from hypothesis import settings as hypothesis_settings
from pytest_django import Settings

from clients.models import ApiKey
from jobs.builds import registration
from jobs.management.commands.seedlocal import MINISIM, MINISIM_ORIGIN, MINISIM_READS
from jobs.models import Build
from simservice.redis.client import outage, redis
from tests.factories import make_key

# Every test client would otherwise look through all static files when it is made.
settings.WHITENOISE_AUTOREFRESH = True
# On a busy machine an example may be slow without being wrong.
hypothesis_settings.register_profile("any machine", deadline=None)
hypothesis_settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def _empty_redis() -> None:
    """Start every test with nothing in this process's Redis database."""
    redis().flushdb()
    outage.record_success()


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no disk: nothing of a test needs to survive a power failure."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(autouse=True)
def _fresh_content_types() -> None:
    """Forget Django's content types: a test that flushed the database had them made again, under other numbers."""
    ContentType.objects.clear_cache()


@pytest.fixture(autouse=True)
def _admin_by_password(settings: Settings) -> None:
    """Let staff use the admin without a second factor; `tests/simservice/test_operators.py` is about that."""
    settings.ADMIN_REQUIRES_MFA = False


@pytest.fixture
def key(db: None) -> tuple[ApiKey, str]:
    """An API key and its secret, of an account of its own."""
    return make_key()


@pytest.fixture
def minisim(transactional_db: None) -> Build:
    """Register the built-in simulator as a build, like the local stack."""
    return registration.register(MINISIM, MINISIM_ORIGIN, readable=MINISIM_READS)


class Api:
    """The API as one caller sees it."""

    def __init__(self, secret: str) -> None:
        self.http = HttpClient(headers={"authorization": f"Bearer {secret}"})

    def get(self, path: str, **kwargs: Any) -> Any:
        return self.http.get(f"/v1/sim/{path}", **kwargs)

    def post(self, path: str, body: Any = None, **kwargs: Any) -> Any:
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        return self.http.post(f"/v1/sim/{path}", text, **{"content_type": "application/json"} | kwargs)

    def post_text(self, query: str, text: str | bytes, **headers: str) -> Any:
        """Submit a profile in the plain-text form."""
        return self.post(f"jobs?{query}", text, content_type="text/plain", headers=headers)


@pytest.fixture
def api(key: tuple[ApiKey, str]) -> Api:
    """The API as the owner of `key` sees it."""
    return Api(key[1])
