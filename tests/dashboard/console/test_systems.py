"""The workers and systems that the live overview shows."""

import shutil

import pytest
from django.test import Client as Browser
from redis.exceptions import RedisError

from dashboard.console import systems
from simservice import worker_heartbeats
from simservice.redis.client import redis

pytestmark = pytest.mark.django_db
CONTROL, WEBHOOKS, DATABASE, REDIS, DISK = range(5)


@pytest.fixture(autouse=True)
def _own_redis_keys() -> None:
    redis().delete(worker_heartbeats.KEY)


def found() -> list[systems.System]:
    return systems.state()["systems"]


def test_a_missing_worker_needs_attention() -> None:
    worker_heartbeats.report("control@one-1", slots=4)
    worker_heartbeats.report("control@two-1", slots=4)
    assert found()[CONTROL] == ("control workers", "2 live", False)
    assert found()[WEBHOOKS] == ("webhooks workers", "None running", True)


def test_a_healthy_service_needs_no_attention(operator: Browser) -> None:
    for name in ("control@one-1", "webhooks@one-1"):
        worker_heartbeats.report(name)
    assert [system.name for system in found() if system.is_bad] == []
    text = operator.get("/admin/overview/").content.decode()
    assert '<th scope="row">PostgreSQL</th><td>Responds in' in text


def test_a_lost_redis_is_said_and_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_heartbeats, "redis", _lost)
    monkeypatch.setattr(systems, "redis", _lost)
    assert [system.is_bad for system in found()] == [True, True, False, True, False]
    assert found()[REDIS].state == "Does not respond"


def _lost() -> None:
    raise RedisError


def test_an_unreadable_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", _unreadable)
    assert found()[DISK] == ("Disk of this machine", "Unknown: Permission denied", True)


def _unreadable(_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_full_disk_needs_attention(settings: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "SIM_DISK_BYTES", 1 << 60)
    assert found()[DISK].is_bad
