"""Fixtures for all tests: API clients, an empty Redis, and settings that make tests fast."""

import gc
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client as HttpClient
from django.test import TransactionTestCase
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker, Settings

from clients.models import ApiKey
from jobs.management.commands.seedlocal import MINISIM, MINISIM_ORIGIN, MINISIM_READS
from jobs.models import Build
from jobs.operations import build_registration
from simservice.redis import shared_metrics
from simservice.redis.client import outage, redis
from tests import pgbouncer
from tests.emptying import empty_database
from tests.factories import make_key
from tests.services import wait_for_template
from tests.stack import Stack, running_stack
from tests.webhooks.receivers import Receiver, make_authority, receiving

# Without autorefresh, each test client would scan all static files.
settings.WHITENOISE_AUTOREFRESH = True
# The default hasher needs a quarter of a second per password.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Examples may be slow on a busy machine.
hypothesis_settings.register_profile("any machine", deadline=None)
hypothesis_settings.load_profile("any machine")
TransactionTestCase._fixture_teardown = lambda _: empty_database()  # type: ignore[attr-defined]

# Importing all tests creates millions of long-lived objects, which Python would otherwise scan again and again.
gc.disable()


# Before pytest-xdist, which reads the groups in the same hook. Later, pytest-django moves the tests with real
# transactions to the end, and keeps this order otherwise.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each process run whole files or groups, so that fixtures are shared, and begin with the longest ones.

    A group is long if a test of it has a long time limit or, among equals, if it has many tests.
    """
    sizes, limits = Counter[str](), Counter[str]()
    groups: dict[pytest.Item, str] = {}
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.location[0]))
        group = groups[item] = next(item.iter_markers("xdist_group")).args[0]
        sizes[group] += 1
        limits[group] = max(limits[group], *(mark.args[0] for mark in item.iter_markers("timeout")), 0)
    items.sort(key=lambda item: (-limits[groups[item]], -sizes[groups[item]]))


def pytest_collection_finish() -> None:
    """Exclude everything that was imported from later garbage collections, which become rarer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Connect each test through PgBouncer, if `make pgbouncer` started it."""
    with pgbouncer.connected(directly=bool(item.get_closest_marker("direct"))):
        return (yield)


@pytest.fixture(scope="session")
def _directly() -> Iterator[ExitStack]:
    with ExitStack() as ending:
        ending.enter_context(pgbouncer.connected(directly=True))
        yield ending


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Copy the database that `tests/services.py` migrated, if it did."""
    settings.DATABASES["default"]["TEST"]["TEMPLATE"] = wait_for_template()


@pytest.fixture(scope="session")
def django_db_setup(_directly: ExitStack, django_db_setup: None) -> None:
    """Create the database over a direct connection, because `migrate` refuses poolers."""
    _directly.close()


@pytest.fixture
def empty_redis() -> None:
    """Empty this process's Redis database."""
    redis().flushdb()
    outage.record_success()


@pytest.fixture(autouse=True)
def _empty_redis_with_database(request: pytest.FixtureRequest) -> None:
    """Empty Redis for tests that use the database; other tests of Redis request `empty_redis`."""
    uses_database = {"db", "transactional_db"}.intersection(request.fixturenames)
    if uses_database or request.node.get_closest_marker("django_db"):
        request.getfixturevalue("empty_redis")


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip `fsync`; no test data needs to survive a power failure."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(autouse=True)
def _no_metrics_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a test counts in this process until it sends it."""
    sender = shared_metrics.Flusher()
    monkeypatch.setattr(sender, "start", lambda: None)
    monkeypatch.setattr(shared_metrics, "flusher", sender)


@pytest.fixture(autouse=True)
def _admin_by_password(settings: Settings) -> None:
    """Let staff use the admin without a second factor, which `tests/simservice/test_admin_access.py` tests."""
    settings.ADMIN_REQUIRES_MFA = False


@pytest.fixture
def operator(db: None) -> HttpClient:
    """The browser of an operator who may do everything."""
    browser = HttpClient()
    browser.force_login(User.objects.create_superuser("operator"))
    return browser


@pytest.fixture(scope="module")
def shared_rows(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A transaction around all tests of a module, for rows that they share. Each test undoes its own changes."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture(scope="session")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """A receiver of webhooks on this machine, with its own certificate authority."""
    with receiving(make_authority(tmp_path_factory.mktemp("authority"))) as running:
        yield running


@pytest.fixture(scope="session")
def webhook_settings(receiver: Receiver) -> dict[str, str]:
    """The settings of a stack that sends webhooks to the receiver."""
    return {"WEBHOOK_SECRETS_KEYS": "for the tests' stack", **receiver.settings()}


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, webhook_settings: dict[str, str]) -> Iterator[Stack]:
    """A stack with high limits, for the tests of the group `api`."""
    with running_stack(tmp_path_factory.mktemp("stack"), **webhook_settings) as started:
        started.lift_limits()
        yield started


@pytest.fixture
def key(db: None) -> tuple[ApiKey, str]:
    """An API key of a new account, and its secret."""
    return make_key()


@pytest.fixture
def minisim(transactional_db: None) -> Build:
    """Register the built-in simulator as a build, like the local stack."""
    return build_registration.register(MINISIM, MINISIM_ORIGIN, readable=MINISIM_READS)


class Api:
    """Client of the API with one key."""

    def __init__(self, secret: str) -> None:
        self.http = HttpClient(headers={"authorization": f"Bearer {secret}"})

    def get(self, path: str, **kwargs: Any) -> Any:
        return self.http.get(f"/v1/sim/{path}", **kwargs)

    def post(self, path: str, body: Any = None, **kwargs: Any) -> Any:
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        return self.http.post(f"/v1/sim/{path}", text, **{"content_type": "application/json"} | kwargs)

    def post_text(self, query: str, text: str | bytes, **headers: str) -> Any:
        """Submit a profile as plain text."""
        return self.post(f"jobs?{query}", text, content_type="text/plain", headers=headers)


@pytest.fixture
def api(key: tuple[ApiKey, str]) -> Api:
    """The API with the key of `key`."""
    return Api(key[1])
