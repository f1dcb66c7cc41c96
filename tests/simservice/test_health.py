"""Health and readiness of the service."""

import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client as HttpClient

from simservice import clocks, worker_heartbeats
from simservice.redis import client


def ready() -> tuple[int, dict[str, object]]:
    """Request the readiness page."""
    response = HttpClient().get("/readyz")
    return response.status_code, response.json()


def test_the_process_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the database nor Redis is available here."""
    monkeypatch.delattr(client, "redis")
    assert HttpClient().get("/healthz").status_code == 200


@pytest.mark.django_db
def test_the_service_is_ready_with_a_live_simulation_worker() -> None:
    worker_heartbeats.report("webhooks@here")
    parts = {"database": True, "clock": True, "redis": True, "worker": False, "sandbox": []}
    assert ready() == (503, {"status": "unavailable", **parts})
    worker_heartbeats.report("sim@here")
    assert ready() == (200, {"status": "ok", **parts, "worker": True})


@pytest.mark.django_db
def test_a_process_with_a_wrong_clock_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    worker_heartbeats.report("sim@here")
    monkeypatch.setattr(clocks, "database_time", lambda: datetime.now(UTC) - timedelta(days=40))
    status, parts = ready()
    assert (status, parts["database"], parts["clock"]) == (503, True, False)


@pytest.mark.django_db
def test_a_worker_that_claims_no_jobs_does_not_count() -> None:
    worker_heartbeats.report("sim@here", slots=0, problem="a disk of this machine is full")
    status, parts = ready()
    assert (status, parts["worker"]) == (503, False)


@pytest.mark.django_db
def test_readiness_lists_the_sandbox_layers_of_all_workers() -> None:
    worker_heartbeats.report("sim@strong", layers=["bubblewrap", "landlock", "seccomp"])
    worker_heartbeats.report("sim@weak", layers=["own_uid", "seccomp"])
    worker_heartbeats.report("webhooks@here")
    assert ready()[1]["sandbox"] == ["seccomp"]


@pytest.mark.django_db
def test_a_worker_without_recent_heartbeat_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    worker_heartbeats.report("sim@here")
    monkeypatch.setattr(worker_heartbeats, "ALIVE_SECONDS", -1)
    assert ready()[0] == 503


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections but never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def timed_ready() -> dict[str, object]:
    """Request the readiness page; it must respond quickly."""
    started = time.monotonic()
    status, parts = ready()
    # The server never responds.
    assert time.monotonic() - started < 30
    assert status == 503
    return parts


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "refuses"])
def test_a_database_outage_is_reported_quickly(
    monkeypatch: pytest.MonkeyPatch,
    silent_port: int,
    hangs: bool,  # noqa: FBT001
) -> None:
    worker_heartbeats.report("sim@here")
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connection.settings_dict, "PORT", str(silent_port if hangs else 1))
    assert timed_ready() == {
        "status": "unavailable",
        "database": False,
        "clock": True,
        "redis": True,
        "worker": True,
        "sandbox": [],
    }


@pytest.mark.django_db
@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "refuses"])
def test_a_redis_outage_is_reported_quickly(
    monkeypatch: pytest.MonkeyPatch,
    silent_port: int,
    hangs: bool,  # noqa: FBT001
) -> None:
    netloc = f"127.0.0.1:{silent_port if hangs else 1}"
    monkeypatch.setattr(settings, "REDIS_URL", urlsplit(settings.REDIS_URL)._replace(netloc=netloc).geturl())
    client.redis.cache_clear()
    assert timed_ready() == {
        "status": "unavailable",
        "database": True,
        "clock": True,
        "redis": False,
        "worker": False,
        "sandbox": [],
    }
    client.redis.cache_clear()
